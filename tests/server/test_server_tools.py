"""Tool calls over HTTP, in both forms: bodies, deltas, histories, and what is refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import Running, running, toy_settings

PLAIN = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
QWEN = (Path(__file__).parents[1] / "data" / "chat" / "templates" / "qwen3.jinja").read_text(encoding="utf-8")


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}}


TOOLS = [tool("light", on={"type": "boolean"}), tool("dial", n={"enum": [7, 8, 9]})]
LIGHT = {"type": "function", "function": {"name": "light"}}
HOT = {"temperature": 2.0, "max_tokens": 200, "chat_template_kwargs": {"enable_thinking": False}}


@pytest.fixture(scope="module", params=[PLAIN, QWEN], ids=["generic", "hermes"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("toy")
    options = toy_settings(folder).model_options | {"chat_template": request.param, "n_ctx": 4096}
    yield from running(toy_settings(folder, model_options=options))


def streamed(events: list[Any]) -> tuple[dict[str, Any], str | None]:
    """The message that the deltas make, as strict clients put it together, and the finish_reason."""
    message: dict[str, Any] = {"content": "", "tool_calls": []}
    reason = None
    assert events.pop() == "[DONE]" and len({event["id"] for event in events}) == 1
    for event in events:
        (choice,) = event["choices"]
        delta = choice["delta"]
        message["content"] += delta.get("content") or ""
        for part in delta.get("tool_calls", ()):
            if part["index"] == len(message["tool_calls"]):
                assert part["id"] and part["type"] == "function" and part["function"]["arguments"] == ""
                message["tool_calls"].append({"id": part["id"], "name": part["function"]["name"], "arguments": ""})
            else:
                assert part["index"] == len(message["tool_calls"]) - 1 and set(part) == {"index", "function"}
                message["tool_calls"][-1]["arguments"] += part["function"]["arguments"]
        reason = choice["finish_reason"] or reason
    return message, reason


def check_call(name: str, arguments: str) -> None:
    values = json.loads(arguments)
    if name == "light":
        assert set(values) == {"on"} and isinstance(values["on"], bool)
    else:
        assert name == "dial" and set(values) == {"n"} and values["n"] in (7, 8, 9)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_call_that_is_required(server: Running, seed):
    wish = HOT | {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False, "seed": seed}
    (choice,) = server.chat(**wish).json["choices"]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
    (call,) = choice["message"]["tool_calls"]
    assert call["type"] == "function" and call["id"].startswith("call_")
    check_call(**call["function"])
    message, reason = streamed(server.chat(**wish, stream=True).events)
    assert reason == "tool_calls" and message["content"] == ""
    (again,) = message["tool_calls"]
    assert (again["name"], again["arguments"]) == tuple(call["function"].values()) and again["id"] != call["id"]


def test_several_calls(server: Running):
    """A model that is as likely to call again as not to, but for its seed."""
    n_calls = set()
    for seed in range(3):
        wish = HOT | {"tools": TOOLS, "tool_choice": "required", "seed": seed}
        message, reason = streamed(server.chat(**wish, stream=True).events)
        if reason == "tool_calls":
            for call in message["tool_calls"]:
                check_call(call["name"], call["arguments"])
            assert len({call["id"] for call in message["tool_calls"]}) == len(message["tool_calls"])
            n_calls.add(len(message["tool_calls"]))
    assert max(n_calls) > 1


def test_a_named_one(server: Running):
    for seed in range(4):
        choice = server.chat(**HOT, tools=TOOLS, tool_choice=LIGHT, seed=seed).json["choices"][0]
        assert [call["function"]["name"] for call in choice["message"]["tool_calls"]] == ["light"]


def test_none(server: Running):
    choice = server.chat(**HOT, tools=TOOLS, tool_choice="none").json["choices"][0]
    assert "tool_calls" not in choice["message"] and choice["finish_reason"] != "tool_calls"


def test_json_or_calls(server: Running):
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": [5]}}}
    bracket = {str(3 + ord("[")): 40}  # the toy's tokens of bytes begin at 3
    for seed in range(4):
        wish = HOT | {"tools": TOOLS, "response_format": form, "seed": seed}
        message = server.chat(**wish, logit_bias=bracket).json["choices"][0]["message"]
        assert json.loads(message["content"]) == [5] and "tool_calls" not in message
        (choice,) = server.chat(**wish, logit_bias=dict.fromkeys(bracket, False)).json["choices"]
        calls = choice["message"]["tool_calls"]
        for call in calls[: len(calls) - (choice["finish_reason"] == "length")]:
            check_call(**call["function"])


def test_the_prompt_does_not_depend_on_the_choice_or_the_order_of_keys(server: Running):
    def prompt(tools: list[dict[str, Any]], **fields: Any) -> str:
        body = {"messages": [{"role": "user", "content": "the"}], "tools": tools} | fields
        return server.post("/apply-template", body).json["prompt"]

    turned = [{"function": dict(reversed(t["function"].items())), "type": "function"} for t in TOOLS]
    assert prompt(TOOLS) == prompt(TOOLS, tool_choice="none") == prompt(TOOLS, tool_choice=LIGHT) == prompt(turned)
    assert '"light"' in prompt(TOOLS)
    body = {"messages": [{"role": "user", "content": "the"}], "tools": TOOLS}
    n = server.post("/v1/chat/completions/input_tokens", body).json["input_tokens"]
    assert n == server.post("/v1/chat/completions", body | {"max_tokens": 1}).json["usage"]["prompt_tokens"]


def history(arguments: Any) -> dict[str, Any]:
    call = {"id": "call_1", "type": "function", "function": {"name": "light", "arguments": arguments}}
    messages = [
        {"role": "user", "content": "the"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ]
    return {"messages": messages, "max_tokens": 2}


@pytest.mark.parametrize("tools", [TOOLS, None])
def test_calls_in_the_history(server: Running, tools):
    for arguments in ('{"on": true}', "", {"on": True}):
        assert server.post("/v1/chat/completions", history(arguments) | {"tools": tools}).status == 200
    for arguments in ('{"on": tr', "[1]", "5", 5):
        reply = server.post("/v1/chat/completions", history(arguments) | {"tools": tools})
        assert reply.status == 400 and "messages[1].tool_calls[0].function.arguments" in reply.error["message"]


def changed(**function: Any) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": "light"} | function}]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "mcp"}]}, "tools[0].type"),
        ({"tools": changed(name="a b")}, "tools[0].function.name"),
        ({"tools": TOOLS + TOOLS}, "tools[2].function.name"),
        ({"tools": changed(parameters=[])}, "tools[0].function.parameters"),
        ({"tools": changed(parameters={"properties": {"a": {"type": "thing"}}})}, "parameters: at /properties/a"),
        ({"tools": changed(parameters={"properties": {"a": {"not": {}}}}, strict=True)}, "not supported: not"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "door"}}}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": TOOLS, "grammar": 'root ::= "a"'}, "grammar"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "parallel_tool_calls": "yes"}, "parallel_tool_calls"),
        ({"tools": TOOLS, "response_format": {"type": "json_object", "schema": {"not": {}}}}, "json_schema: at"),
    ],
)
def test_what_cannot_be_meant_is_refused(server: Running, fields, said):
    reply = server.chat(**fields)
    assert reply.status == 400 and said in reply.error["message"]


def test_what_a_schema_asks_beyond_grammars_is_left_out_unless_strict(server: Running):
    tools = changed(parameters={"type": "object", "properties": {"on": {"enum": [1], "not": {"const": 2}}}})
    assert server.chat(**HOT, tools=tools, tool_choice="required").status == 200
