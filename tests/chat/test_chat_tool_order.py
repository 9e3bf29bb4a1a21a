"""The same tools are the same text, whatever order their keys come in."""

import json
import random

import pytest

from chenxing.chat.template import ChatTemplate
from chenxing.chat.tool_order import in_order
from chenxing.errors import UsageError

WRITE = {
    "type": "function",
    "function": {
        "name": "write",
        "description": "Writes a file.",
        "parameters": {
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Where."},
                "content": {"type": "string", "enum": ["b", "a"], "default": {"y": 1, "x": 2}},
                "type": {"type": "array", "items": {"type": "object", "properties": {"b": {}, "a": {}}}},
                "mode": {"anyOf": [{"type": "null"}, {"type": "string", "x-new": 1, "a-new": 2}]},
            },
            "required": ["path", "content"],
            "additionalProperties": False,
        },
    },
}
READ = {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}


def shuffled(value, rng):
    if isinstance(value, dict):
        items = [(key, shuffled(item, rng)) for key, item in value.items()]
        rng.shuffle(items)
        return dict(items)
    return [shuffled(item, rng) for item in value] if isinstance(value, list) else value


def keys(value):
    return list(value) if isinstance(value, dict) else None


def test_any_order_of_keys_gives_one_text():
    rng = random.Random(3)
    expected = json.dumps(in_order([WRITE, READ]))
    for _ in range(50):
        tools = shuffled([WRITE, READ], rng)
        ordered = in_order(tools)
        assert ordered == tools and json.dumps(ordered) == expected
    assert json.dumps(in_order(json.loads(json.dumps([WRITE, READ], sort_keys=True)))) == expected


def test_people_would_write_it_so():
    (tool,) = in_order([WRITE])
    assert keys(tool) == ["type", "function"]
    assert keys(tool["function"]) == ["name", "description", "parameters"]
    parameters = tool["function"]["parameters"]
    assert keys(parameters) == ["type", "properties", "required", "additionalProperties"]
    properties = parameters["properties"]
    assert keys(properties) == ["path", "content", "mode", "type"]  # the required ones first
    assert keys(properties["path"]) == ["type", "description"]
    assert keys(properties["content"]["default"]) == ["x", "y"]
    assert keys(properties["mode"]["anyOf"][1]) == ["type", "a-new", "x-new"]
    assert keys(properties["type"]["items"]["properties"]) == ["a", "b"]


def test_lists_stay():
    assert [tool["function"]["name"] for tool in in_order([WRITE, READ])] == ["write", "read"]
    properties = in_order([WRITE])[0]["function"]["parameters"]["properties"]
    assert properties["content"]["enum"] == ["b", "a"]


def test_tools_in_the_usual_order_stay_as_they_are():
    usual = json.loads(json.dumps(READ))
    usual["function"] = {
        "name": "read",
        "description": "Reads.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "Where."}, "encoding": {"type": "string"}},
            "required": ["path"],
        },
    }
    assert json.dumps(in_order([usual])) == json.dumps([usual])


def test_what_is_no_schema_passes():
    odd = [{"type": "function", "properties": ["a"], "required": "all", "enum": 3, "function": None}]
    assert in_order(odd) == odd
    assert in_order([{"properties": {"a": 1}, "required": [1, "b", {}]}]) == [
        {"properties": {"a": 1}, "required": [1, "b", {}]}
    ]


def test_depth_is_an_error_of_the_client():
    deep: dict = {}
    for _ in range(5000):
        deep = {"items": deep}
    with pytest.raises(UsageError, match="nested too deeply"):
        in_order([deep])


def test_templates_see_this_order():
    template = ChatTemplate("{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}", bos="", eos="")
    rng, user = random.Random(1), [{"role": "user", "content": "Hi"}]
    texts = {template.render(user, tools=shuffled([WRITE, READ], rng)).text for _ in range(10)}
    assert len(texts) == 1 and '{"type": "function", "function": {"name": "write",' in texts.pop()
