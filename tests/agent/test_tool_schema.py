"""From a typed function to a schema, and from a call's JSON back to arguments."""

import asyncio
import json
from dataclasses import dataclass
from typing import Annotated, Literal, Optional

import jsonschema
import msgspec
import pytest

from chenxing.agent.tools import Observation, Toolbox, ToolError, tool
from chenxing.chat.tools import tool_request
from chenxing.errors import AgentError


@dataclass
class Place:
    name: str
    floor: int = 0


@tool
def book(
    city: str,
    days: Literal[1, 3, 7] = 1,
    place: Optional[Place] = None,  # noqa: UP045
    tags: list[str] = [],  # noqa: B006
    note: Annotated[str, msgspec.Meta(description="a remark")] = "",
) -> str:
    """Book a room.
    It may be a small one.

    city   its name
           in English
    days   for how long
    """
    return f"{city} {days} {place} {tags} {note}"


def test_schema_from_annotations_and_docstring():
    assert book.name == "book" and book.description == "Book a room. It may be a small one."
    assert book.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "its name in English"},
            "days": {"enum": [1, 3, 7], "default": 1, "description": "for how long"},
            "place": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}], "default": None},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
            "note": {"type": "string", "default": "", "description": "a remark"},
        },
        "required": ["city"],
        "additionalProperties": False,
        "$defs": {
            "Place": {
                "title": "Place",
                "type": "object",
                "properties": {"name": {"type": "string"}, "floor": {"type": "integer", "default": 0}},
                "required": ["name"],
            }
        },
    }
    jsonschema.Draft202012Validator.check_schema(book.parameters)
    assert tool_request([book.described]) is not None


def google(a: int, b: str = "x"):
    """Do it.

    Args:
        a (int): the first
        b: the second, which
            goes on
    Returns:
        nothing
    """


def sphinx(a: int, b: str = "x"):
    """Do it.

    :param a: the first
    :param str b: the second, which
        goes on
    """


@pytest.mark.parametrize("function", [google, sphinx])
def test_other_styles_of_docstrings(function):
    made = tool(function)
    properties = made.parameters["properties"]
    assert made.description == "Do it."
    assert [properties[name]["description"] for name in "ab"] == ["the first", "the second, which goes on"]


def call(made, arguments, **options):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return asyncio.run(Toolbox([made], **options).call(made.name, text))


def test_arguments_get_their_types():
    given = {"city": "Rome", "days": 3, "place": {"name": "Inn", "floor": 2}, "tags": ["a"]}
    assert call(book, given) == Observation("Rome 3 Place(name='Inn', floor=2) ['a'] ")
    assert call(book, {"city": "Rome"}) == Observation("Rome 1 None [] ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "missing required field `city`"),
        ({"city": 3}, "Expected `str`, got `int` - at `city`"),
        ({"city": "R", "days": 2}, "Invalid enum value 2 - at `days`"),
        ({"city": "R", "place": {"floor": 1}}, "missing required field `name` - at `place`"),
        ({"city": "R", "sity": "R"}, "unknown field `sity`"),
        ('{"city": "R"', "the arguments are no JSON"),
        ("[1]", "expected the arguments as a JSON object"),
        ("[" * 100_000, "the arguments are no JSON"),
    ],
)
def test_wrong_arguments_become_observations(arguments, message):
    found = call(book, arguments)
    assert found.is_error and message in found.text


def test_a_tool_without_arguments():
    made = tool(name="now")(lambda: "yes")
    assert made.name == "now" and made.parameters["properties"] == {} and call(made, "") == Observation("yes")


def test_defaults_are_not_shared():
    @tool
    def collect(items: list[str] = []) -> int:  # noqa: B006
        items.append("x")
        return len(items)

    assert [call(collect, {}).text for _ in range(2)] == ["1", "1"]


def test_functions_that_are_no_tools():
    for function, message in (
        (lambda x: x, "parameter 'x': expected an annotation"),
        (lambda *xs: xs, "parameter 'xs': expected one that can be given by its name"),
    ):
        with pytest.raises(AgentError, match=message):
            tool(function)

    def odd(x: object): ...

    with pytest.raises(AgentError, match="'odd': expected types that JSON knows"):
        tool(odd)


def test_what_goes_wrong_becomes_an_observation():
    def fails() -> str:
        raise ZeroDivisionError("oh")

    def refuses() -> str:
        raise ToolError("not today")

    def odd() -> object:
        return object()

    assert call(tool(fails), {}) == Observation("ZeroDivisionError: oh", True)
    assert call(tool(refuses), {}) == Observation("not today", True)
    assert call(tool(odd), {}).is_error
    unknown = asyncio.run(Toolbox([book]).call("bok", "{}"))
    assert unknown == Observation("there is no tool 'bok'; there are: book", True)


def test_results_are_text_or_json():
    assert call(tool(name="d")(lambda: {"a": [1, Place("星")]}), {}).text == '{"a": [1, {"name": "星", "floor": 0}]}'
    assert call(tool(name="n")(lambda: None), {}).text == "done"


def test_a_tool_that_takes_too_long():
    import threading
    import time

    release = threading.Event()

    @tool(timeout=0.05)
    def blocks() -> str:
        release.wait(60)
        return "late"

    @tool(timeout=0.05)
    async def sleeps() -> str:
        await asyncio.sleep(60)
        return "late"

    began = time.monotonic()
    for made in (blocks, sleeps):
        assert call(made, {}) == Observation(f"{made.name} did not end within 0.05 seconds", True)
    assert time.monotonic() - began < 50
    release.set()


def test_long_results_are_cut_and_say_so():
    found = call(tool(name="long")(lambda: "x" * 100), {}, max_characters=10)
    assert found.text == "x" * 10 + "\n[cut off here: 100 characters in all]"


def test_who_is_asked_what():
    @tool(changes=True)
    def wipe(disk: str) -> str:
        return disk

    @tool(changes=True, preview=lambda disk: f"really {disk}?")
    def format(disk: str) -> str:
        return disk

    box = Toolbox([wipe, format, book])
    assert box.question("wipe", '{"disk": "C"}') == 'wipe {"disk": "C"}'
    assert box.question("format", '{"disk": "C"}') == "really C?"
    assert box.question("book", '{"city": "Rome"}') is None
    assert box.question("none", "{}") is None and box.question("wipe", "{") is None
    with pytest.raises(AgentError, match="two tools are called 'book'"):
        Toolbox([book, book])
