"""The tools of a request: what is taken, and what is refused by name."""

import pytest
from tool_texts import LIGHT, TOOLS, WEATHER

from chenxing.chat import ChatTemplate
from chenxing.chat.tools import tool_request
from chenxing.chat.tools.request import MOST_CHARACTERS, MOST_TOOLS
from chenxing.errors import UsageError


def tool(**function):
    return {"type": "function", "function": {"name": "f"} | function}


def nested(depth):
    schema: dict = {}
    for _ in range(depth):
        schema = {"properties": schema}
    return schema


@pytest.mark.parametrize(
    ("tools", "error"),
    [
        ("x", "tools: expected a list of objects, found a string"),
        ([WEATHER, 3], r"tools\[1\]: expected an object, found a number: 3"),
        ([{"type": "retrieval"}], r"tools\[0\]\.type: expected 'function', found 'retrieval'"),
        ([{"function": {"name": "f"}}], r"tools\[0\]\.type: expected 'function', found None"),
        ([{"type": "function"}], r"tools\[0\]\.function: expected an object, found None"),
        ([tool(name=3)], r"tools\[0\]\.function\.name: expected 1 to 128 of .*, found 3"),
        ([tool(name="")], r"tools\[0\]\.function\.name: expected"),
        ([tool(name='a"b')], r"tools\[0\]\.function\.name: expected"),
        ([tool(name="a" * 129)], r"tools\[0\]\.function\.name: expected"),
        ([tool(description=3)], r"tools\[0\]\.function\.description: expected a string, found 3"),
        ([tool(strict="yes")], r"tools\[0\]\.function\.strict: expected true or false, found 'yes'"),
        ([tool(parameters=[])], r"tools\[0\]\.function\.parameters: expected a JSON schema, an object, found \[\]"),
        ([tool(parameters=True)], r"tools\[0\]\.function\.parameters: expected a JSON schema"),
        ([tool(parameters={"type": "array"})], r"function\.parameters\.type: expected 'object', found 'array'"),
        ([tool(parameters=nested(65))], r"tools\[0\]\.function\.parameters: nested more than 64 deep"),
        ([tool(parameters=nested(100_000))], r"tools\[0\]: nested too deeply"),
        ([tool(parameters={"minimum": float("nan")})], r"tools\[0\]: expected JSON"),
        ([WEATHER, LIGHT, WEATHER], r"tools\[2\]\.function\.name: 'get_weather' is .* of tools\[0\]\.function"),
        ([tool(name=f"f{i}") for i in range(MOST_TOOLS + 1)], "tools: expected at most 512, found 513"),
        ([WEATHER, tool(description="x" * MOST_CHARACTERS)], r"tools: expected at most .* more by tools\[1\]"),
    ],
)
def test_bad_tools_are_named(tools, error):
    with pytest.raises(UsageError, match=error):
        tool_request(tools)


@pytest.mark.parametrize(
    ("choice", "error"),
    [
        ("any", "tool_choice: expected 'none', 'auto', 'required' or .*, found 'any'"),
        (3, "tool_choice: expected"),
        ({"type": "function"}, "tool_choice: expected"),
        ({"type": "magic", "function": {"name": "light"}}, "tool_choice: expected"),
        (
            {"type": "function", "function": {"name": "dark"}},
            r"tool_choice\.function\.name: no tool is called 'dark'; known are get_weather, light",
        ),
    ],
)
def test_bad_choices_are_named(choice, error):
    with pytest.raises(UsageError, match=error):
        tool_request(TOOLS, choice)


def test_a_call_cannot_be_asked_for_without_tools():
    with pytest.raises(UsageError, match="tool_choice: 'required', but there are no tools"):
        tool_request([], "required")
    with pytest.raises(UsageError, match="no tool is called 'f'; there are no tools"):
        tool_request(None, {"type": "function", "function": {"name": "f"}})
    with pytest.raises(UsageError, match="parallel_tool_calls: expected true or false, found 'no'"):
        tool_request(TOOLS, None, "no")


def test_what_is_asked_for():
    for tools in (None, [], ()):
        assert tool_request(tools, "auto", True) is None
    request = tool_request(TOOLS)
    assert (request.choice, request.named, request.parallel) == ("auto", None, True)
    assert request.tools == TOOLS and request.tools[0] is not TOOLS[0]
    assert [f.name for f in request.callable_functions] == ["get_weather", "light"]
    assert tool_request(TOOLS, "none").choice == "none"
    assert not tool_request(TOOLS, "required", False).parallel
    named = tool_request(TOOLS, {"type": "function", "function": {"name": "light"}})
    assert (named.choice, named.named, named.parallel) == ("required", "light", False)
    assert [f.where for f in named.callable_functions] == ["tools[1].function"]


def test_no_parameters_mean_no_arguments():
    for parameters in ({}, {"parameters": None}, {"parameters": {}}):
        (function,) = tool_request([tool(**parameters)]).functions
        assert function.parameters == {"type": "object", "properties": {}}


def test_broken_arguments_in_a_history_are_named():
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": '}}
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]}]
    with pytest.raises(UsageError, match=r"messages\[1\]\.tool_calls\[0\]\.function\.arguments: expected JSON"):
        ChatTemplate("{{ messages }}", bos="", eos="").render(messages)
