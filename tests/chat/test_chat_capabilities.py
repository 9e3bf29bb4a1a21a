"""What templates take is found by trying them."""

from pathlib import Path

import pytest

from chenxing.chat.capabilities import CallForm
from chenxing.chat.fallback import FALLBACKS
from chenxing.chat.template import ChatTemplate

TEMPLATES = Path(__file__).parents[1] / "data" / "chat" / "templates"

QUESTIONS = ("system", "late_system", "runs", "assistant_first", "tools", "tool_results", "part_content")
EXPECTED = {
    # template: the questions answered with yes, and the form of calls
    "smollm2": ("system late_system runs assistant_first tool_results", None),
    "llama3": ("system late_system runs assistant_first tools tool_results", CallForm("", False)),
    "qwen3": ("system late_system runs assistant_first tools tool_results", CallForm("", False)),
    "mistral": ("tools tool_results", CallForm("", False)),
    "gemma": ("part_content", None),
    "deepseek_r1": ("system runs assistant_first tool_results", CallForm(None, True)),
    "command_r": ("system late_system runs assistant_first tools tool_results", None),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_capabilities(name):
    can = ChatTemplate((TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8"), bos="<s>", eos="</s>").capabilities
    yes, form = EXPECTED[name]
    assert " ".join(q for q in QUESTIONS if getattr(can, q)) == " ".join(q for q in QUESTIONS if q in yes.split())
    assert can.call_form == form
    assert can.string_content


def test_a_template_that_prints_parts_as_they_are_does_not_take_them():
    for source in ("{{ messages[0].content }}", "{{ messages[0].content | tojson }}"):
        assert not ChatTemplate(source, bos="", eos="").capabilities.part_content


def test_a_template_that_takes_only_parts():
    source = "{% for m in messages %}{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endfor %}"
    template = ChatTemplate(source, bos="", eos="")
    assert not template.capabilities.string_content
    assert template.render([{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]).text == "[S][U]"


def test_a_template_that_cannot_be_tried_is_given_messages_as_they_are():
    source = "{% for m in messages %}{{ m.role + required.x }} {{ m.content }}\n{% endfor %}"
    template = ChatTemplate(source, bos="", eos="")
    can = template.capabilities
    assert can.string_content and not can.part_content
    assert all(getattr(can, question) for question in QUESTIONS if question != "part_content")
    assert can.call_form == CallForm("", False)
    messages = [{"role": "system", "content": "S"}, {"role": "tool", "content": "T"}]
    assert template.render(messages, required={"x": ":"}).text == "system: S\ntool: T\n"


def test_calls_quoted_twice_or_printed_as_python_are_not_the_form():
    loop = "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}X{% endfor %}{% endfor %}"
    as_json = ChatTemplate(loop.replace("X", "{{ c.function.arguments | tojson }}"), bos="", eos="")
    as_text = ChatTemplate(loop.replace("X", "{{ c.function.arguments }}"), bos="", eos="")
    assert as_json.capabilities.call_form == CallForm("", False)
    assert as_text.capabilities.call_form == CallForm("", True)


def test_no_fallback_shows_tools():
    for name, source in FALLBACKS.items():
        can = ChatTemplate(source, bos="<s>", eos="</s>").capabilities
        assert not can.tools and can.call_form is None, name
