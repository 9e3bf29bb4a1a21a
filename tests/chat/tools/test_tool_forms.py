"""Which form templates get, and what they are given to render."""

import json

import pytest
from tool_texts import GENERIC, HI, NAMES, TOOLS, template

from chenxing.chat import ChatTemplate
from chenxing.chat.fallback import FALLBACKS
from chenxing.chat.tools import Reasoning, ToolCalling, tool_request
from chenxing.chat.tools.generic import Generic, instruction
from chenxing.chat.tools.hermes import Hermes
from chenxing.errors import UsageError

REQUEST = tool_request(TOOLS)
CALLS = [
    {"id": "c1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}},
    {"id": "c2", "type": "function", "function": {"name": "light", "arguments": ""}},
]
HISTORY = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": None, "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    {"role": "tool", "tool_call_id": "c9", "content": "lost"},
]


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("qwen3", Hermes),
        *((name, Generic) for name in ("smollm2", "llama3", "mistral", "gemma", "deepseek_r1", "command_r")),
    ],
)
def test_the_form_is_found_by_trying(name, form):
    assert isinstance(ToolCalling(template(name)).form, form)


def test_a_template_of_its_own_for_tools_decides():
    plain = template("chatml")
    both = ChatTemplate(plain.source, bos="", eos="", tool_use=template("qwen3"))
    calling = ToolCalling(both)
    assert isinstance(calling.form, Hermes)
    prompt = calling.render(HI, REQUEST)
    assert "<tools>" in prompt.prompt.plain and prompt.reasoning is Reasoning.POSSIBLE
    assert calling.render(HI, None).reasoning is Reasoning.NONE


def test_the_mark_alone_is_not_the_form():
    """As in Qwen3-Coder: calls are XML between the same marks."""
    source = template("qwen3").source.replace('{"name": "', "<function=")
    assert isinstance(ToolCalling(ChatTemplate(source, bos="", eos="")).form, Generic)


def test_hermes_leaves_tools_and_calls_to_the_template():
    text = ToolCalling(template("qwen3")).render(HISTORY, REQUEST).prompt.plain
    assert json.dumps(TOOLS[0]) in text
    assert '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>' in text
    assert "<tool_response>\nsunny\n</tool_response>" in text


@pytest.mark.parametrize("name", [*FALLBACKS, "smollm2", "llama3", "mistral", "gemma", "deepseek_r1", "command_r"])
def test_the_generic_form_works_with_every_template(name):
    calling = ToolCalling(template(name))
    text = calling.render(HISTORY, REQUEST).prompt.plain
    parts = [
        "Be kind.",
        instruction(REQUEST).splitlines()[-1],
        "Weather?",
        '{"name": "get_weather", "arguments": {"city": "Paris"}}\n{"name": "light", "arguments": {}}',
        "Result of get_weather:\nsunny",
        "Result of the tool:\nlost",  # an id that answers nothing is no error, as with llama.cpp
    ]
    places = [text.find(part) for part in parts]
    assert places == sorted(places) and places[0] >= 0
    assert all(f'"name": "{tool}"' in text for tool in NAMES)


def test_the_generic_instruction_stands_in_the_system_message():
    messages, tools = GENERIC.conversation(template("chatml"), HISTORY, REQUEST)
    assert tools is None
    assert messages[0] == {"role": "system", "content": f"Be kind.\n\n{instruction(REQUEST)}"}
    alone, _ = GENERIC.conversation(template("chatml"), [{"role": "developer", "content": ""}, *HI], REQUEST)
    added, _ = GENERIC.conversation(template("chatml"), HI, REQUEST)
    assert alone == added == [{"role": "system", "content": instruction(REQUEST)}, *HI]


def test_an_answer_is_rendered_as_it_was_written():
    """So its KV is found again: the form that is asked for is the form in which the history shows it."""
    answer = 'Let me look.\n\n{"name": "get_weather", "arguments": {"city": "Paris"}}'
    calling = ToolCalling(template("chatml"))
    before = calling.render(HI, REQUEST).prompt.plain
    message = {"role": "assistant", "content": "Let me look.", "tool_calls": CALLS[:1]}
    result = {"role": "tool", "tool_call_id": "c1", "content": "sunny"}
    assert calling.render([*HI, message, result], REQUEST).prompt.plain.startswith(before + answer)


@pytest.mark.parametrize("name", ["qwen3", "chatml"])
def test_the_choice_does_not_change_the_prompt(name):
    calling = ToolCalling(template(name))
    choices = ["auto", "none", "required", {"type": "function", "function": {"name": "light"}}]
    assert len({calling.render(HI, tool_request(TOOLS, c, p)).prompt for c in choices for p in (True, False)}) == 1


def test_messages_are_checked_in_either_form():
    for name in ("qwen3", "chatml"):
        calling = ToolCalling(template(name))
        bad = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}
        with pytest.raises(UsageError, match=r"messages\[1\]\.tool_calls\[0\]\.function\.arguments: expected JSON"):
            calling.render([*HI, bad], REQUEST)
        with pytest.raises(UsageError, match=r"messages\[0\]\.role: expected one of .*, found 'wizard'"):
            calling.render([{"role": "wizard", "content": ""}], REQUEST)


def test_reasoning_is_seen_in_the_prompt():
    qwen = ToolCalling(template("qwen3"))
    assert qwen.render(HI, None).reasoning is Reasoning.POSSIBLE
    assert qwen.render(HI, None, enable_thinking=False).reasoning is Reasoning.NONE
    opened = ChatTemplate(template("qwen3").source + "{{ '<think>\\n' }}", bos="", eos="")
    assert ToolCalling(opened).render(HI, REQUEST).reasoning is Reasoning.OPEN
    said_by_user = [{"role": "user", "content": "<think>"}]
    assert ToolCalling(ChatTemplate("{{ messages[0].content }}", bos="", eos="")).render(
        said_by_user, None
    ).reasoning is (Reasoning.NONE)
