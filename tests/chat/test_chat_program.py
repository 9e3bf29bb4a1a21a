"""Compiling and running: errors name the line."""

from datetime import datetime

import pytest

from chenxing.chat.bounds import Meter
from chenxing.chat.metering import MAX_SOURCE
from chenxing.chat.program import RenderError, compile_program
from chenxing.errors import TemplateError

NOW = datetime(2025, 7, 4)


def test_a_syntax_error_names_the_line():
    with pytest.raises(TemplateError, match=r"line 3: .*end of print statement"):
        compile_program("a\nb\n{{ 1 2 }}")


def test_an_unknown_filter_names_itself():
    with pytest.raises(RenderError, match="No filter named 'shout'"):
        compile_program("{{ 'a' | shout }}").render({}, Meter(0), NOW)


def test_a_failure_names_the_line_and_what_failed():
    program = compile_program("a\n{% for m in messages %}\n{{ m.content.text.more }}\n{% endfor %}")
    with pytest.raises(RenderError, match=r"failed on these messages \(line 3\): UndefinedError"):
        program.render({"messages": [{"content": "x"}]}, Meter(0), NOW)


@pytest.mark.parametrize(
    "source",
    [
        "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
        "{% if 1 %}" * 150 + "{% endif %}" * 150,
        "{{ 1" + " + 1" * 9999 + " }}",
    ],
    ids=["brackets", "blocks", "sums"],
)
def test_a_template_that_python_cannot_compile(source):
    with pytest.raises(TemplateError, match="nested too deeply"):
        compile_program(source)


def test_an_enormous_template():
    with pytest.raises(TemplateError, match=f"expected at most {MAX_SOURCE} characters, found {MAX_SOURCE + 1}"):
        compile_program("x" * (MAX_SOURCE + 1))


def test_facts():
    facts = compile_program(
        "{% set end = '</think>' %}{% if '<think>' in message.content %}"
        "{{ message['reasoning_content'].split(end)[-1] }}{% endif %}"
        "{{ tool.get('name') | replace('[X]', '') }}{{ 'ipython' }}"
    ).facts
    assert facts.sought == {"</think>", "<think>", "[X]"}
    assert {"content", "reasoning_content", "name"} <= facts.keys
    assert {"ipython", "</think>", "<think>"} <= facts.strings
