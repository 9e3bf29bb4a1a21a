"""The document says what the server does: every route, every member of every answer, every field of every request."""

import re
from typing import Any

import jsonschema
import pytest
from running import Running, toy_settings

from chenxing.server.app import make_app
from chenxing.server.openapi.document import document
from chenxing.server.openapi.operations import OPERATIONS, PAGE_OPERATIONS
from chenxing.server.service import Service

DOCUMENT = document(has_key=True, has_ui=True)
SCHEMAS = DOCUMENT["components"]["schemas"]


def strict(node: Any) -> Any:
    """Objects may have no members beside those that are named."""
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {"additionalProperties": False} if "properties" in node else {}
    return {key: strict(value) for key, value in node.items()} | closed


def check(data: Any, schema: Any) -> None:
    root = {"components": {"schemas": strict(SCHEMAS)}, **schema}
    jsonschema.validate(data, root, cls=jsonschema.Draft202012Validator)


def answer_schema(path: str, method: str = "post", status: int = 200, media: str = "application/json") -> Any:
    return DOCUMENT["paths"][path][method]["responses"][str(status)]["content"][media]["schema"]


@pytest.mark.parametrize("has_ui", [True, False])
def test_every_route_is_described_and_every_description_has_its_route(tmp_path, has_ui):
    service = Service.__new__(Service)  # only its settings matter: nothing is served
    service.settings = toy_settings(tmp_path, has_ui=has_ui)
    routes = {
        (route.method.lower(), re.sub(r"\{(\w+):[^}]*\}", r"{\1}", route.resource.canonical))
        for route in make_app(service).router.routes()
        if route.method != "HEAD" and route.resource
    }
    described = document(has_key=False, has_ui=has_ui)["paths"]
    assert {(method, path) for path, methods in described.items() for method in methods} == routes


def test_it_is_served_as_it_is(server: Running):
    reply = server.get("/openapi.json")
    assert reply.status == 200 and reply.headers["Content-Type"] == "application/json; charset=utf-8"
    assert reply.json == document(has_key=False, has_ui=True)


def test_schemas_are_schemas():
    for name, schema in SCHEMAS.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object", name
    references = set(re.findall(r"'\$ref': '([^']*)'", str(DOCUMENT)))
    assert references == {f"#/components/schemas/{name}" for name in SCHEMAS}


def test_names_are_unique():
    ids = [form["operationId"] for methods in DOCUMENT["paths"].values() for form in methods.values()]
    assert len(set(ids)) == len(ids)


def test_a_key_is_asked_for_where_it_is():
    for operation in OPERATIONS + PAGE_OPERATIONS:
        for path in operation.paths:
            form = DOCUMENT["paths"][path][operation.method]
            assert ("security" in form) == ("401" in form["responses"]) == (not operation.is_public)


def test_every_field_of_a_request_has_a_description():
    for operation in OPERATIONS:
        if operation.request:
            for name, field in SCHEMAS[operation.request.__name__]["properties"].items():
                assert field.get("description"), f"{operation.request.__name__}.{name}"


MESSAGES = [{"role": "user", "content": "the star"}]


@pytest.mark.parametrize(
    ("message", "is_sound"),
    [
        ({"role": "user", "content": "the"}, True),
        ({"role": "developer", "content": [{"type": "text", "text": "the"}]}, True),
        ({"role": "assistant", "content": "b", "reasoning_content": "so", "name": None}, True),
        ({"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "a", "arguments": "{}"}}]}, True),
        ({"role": "stranger", "content": "the"}, False),
        ({"role": "user"}, False),
        ({"role": "user", "content": 1}, False),
        ({"role": "user", "content": [{"type": "image"}]}, False),
        ({"content": "the"}, False),
        (1, False),
    ],
)
def test_messages_are_as_described(server: Running, message, is_sound):
    status = server.post("/v1/chat/completions/input_tokens", {"messages": [{"role": "user", "content": "a"}, message]})
    assert (status.status == 200) == is_sound
    schema = {"$ref": "#/components/schemas/InputMessage"}
    if is_sound:
        check(message, schema)
    else:
        with pytest.raises(jsonschema.ValidationError):
            check(message, schema)


ASKED = [
    ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 3}),
    ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 3, "logprobs": True, "top_logprobs": 2, "n": 2}),
    ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 3, "verbose": True}),
    ("/v1/chat/completions/input_tokens", {"messages": MESSAGES}),
    ("/v1/completions", {"prompt": "the star", "max_tokens": 3}),
    ("/v1/completions", {"prompt": ["the", "star"], "max_tokens": 3, "logprobs": 2}),
    ("/completion", {"prompt": "the star", "n_predict": 3}),
    ("/completion", {"prompt": ["the", "star"], "n_predict": 3, "n_probs": 2, "post_sampling_probs": True}),
    ("/completion", {"prompt": "the star", "n_predict": 3, "response_fields": ["content", "timings"]}),
    ("/tokenize", {"content": "the star"}),
    ("/tokenize", {"content": "the star €", "with_pieces": True}),
    ("/detokenize", {"tokens": [5, 6]}),
    ("/apply-template", {"messages": MESSAGES}),
]


@pytest.mark.parametrize(("path", "body"), ASKED, ids=[str(i) for i in range(len(ASKED))])
def test_answers_are_as_described(server: Running, path, body):
    reply = server.post(path, body)
    assert reply.status == 200
    check(reply.json, answer_schema(path))
    check(body, DOCUMENT["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"])


STREAMED = [
    ("/v1/chat/completions", {"messages": MESSAGES, "logprobs": True, "stream_options": {"include_usage": True}}),
    ("/v1/completions", {"prompt": "the star", "logprobs": 1, "stream_options": {"include_usage": True}}),
    ("/completion", {"prompt": "the star", "n_probs": 1}),
]


@pytest.mark.parametrize(("path", "body"), STREAMED, ids=["chat", "completions", "native"])
def test_streams_are_as_described(server: Running, path, body):
    more = {"stream": True, "max_tokens": 3, "timings_per_token": True, "return_progress": True}
    events = server.post(path, body | more).events
    *ends, form = answer_schema(path, media="text/event-stream")["properties"]["data"]["anyOf"]
    assert (events[-1] == "[DONE]") == (ends == [{"const": "[DONE]"}])
    chunks = [event for event in events if event != "[DONE]"]
    assert len(chunks) > 3
    for chunk in chunks:
        check(chunk, form["contentSchema"])


@pytest.mark.parametrize("path", ["/props", "/v1/models", "/v1/models/{name}", "/slots", "/v1/health"])
def test_what_is_told_of_the_server_is_as_described(server: Running, path):
    check(server.get(path.replace("{name}", "any/name")).json, answer_schema(path, "get"))


def test_slot_actions_are_as_described(tmp_path):
    server = Running(toy_settings(tmp_path, slot_save_path=tmp_path))
    server.chat(id_slot=0)
    for action in ("save", "restore", "erase"):
        check(server.post(f"/slots/0?action={action}", {"filename": "a"}).json, answer_schema("/slots/{number}"))
    server.close()


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("post", "/v1/chat/completions", {"messages": 1}, 400),
        ("post", "/completion", {"prompt": [5] * 600}, 400),
        ("post", "/props", {}, 501),
        ("get", "/page/{file}", None, 404),
    ],
)
def test_errors_are_as_described(server: Running, method, path, body, status):
    reply = server.ask(method.upper(), path.replace("{file}", "x"), body)
    assert reply.status == status
    check(reply.json, answer_schema(path, method, status))
