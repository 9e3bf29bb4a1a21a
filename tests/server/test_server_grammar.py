"""Answers that must have a form: JSON schemas and grammars, enforced or refused with the part that cannot be."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import Running, running, toy_settings

POINT = {
    "type": "object",
    "properties": {"x": {"enum": [1, 20, 300]}, "on": {"type": "boolean"}},
    "required": ["x", "on"],
    "additionalProperties": False,
}
NOT = {"type": "object", "properties": {"a": {"type": "array", "items": {"not": {}}}}}
PLAIN = "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}assistant:"


def response_format(schema: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "point", "schema": schema}}}


def toy(folder: Path, template: str) -> Iterator[Running]:
    options = toy_settings(folder).model_options | {"chat_template": template}
    yield from running(toy_settings(folder, model_options=options))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    yield from toy(tmp_path_factory.mktemp("toy"), PLAIN)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    yield from toy(tmp_path_factory.mktemp("toy"), f"{PLAIN}<think>")


@pytest.fixture(scope="module")
def may_think(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    yield from toy(tmp_path_factory.mktemp("toy"), "{% set mark = '<think>' %}" + PLAIN)


@pytest.mark.parametrize("fields", [response_format(POINT), {"json_schema": POINT}], ids=["openai", "native"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_schema_is_followed(server: Running, fields, seed):
    body = server.chat(max_tokens=100, temperature=2.0, seed=seed, **fields).json
    (choice,) = body["choices"]
    value = json.loads(choice["message"]["content"])
    assert choice["finish_reason"] == "stop"
    assert value.keys() == {"x", "on"} and value["x"] in (1, 20, 300) and isinstance(value["on"], bool)


def test_choices_follow_it_each_for_itself(server: Running):
    body = server.chat(n=3, max_tokens=100, temperature=3.0, seed=4, **response_format({"enum": list("abcdef")})).json
    texts = [choice["message"]["content"] for choice in body["choices"]]
    assert len(set(texts)) > 1 and all(json.loads(text) in list("abcdef") for text in texts)


def test_a_stream_follows_it(server: Running):
    events = server.chat(max_tokens=100, stream=True, **response_format(POINT)).events[:-1]
    assert set(json.loads("".join(e["choices"][0]["delta"].get("content") or "" for e in events))) == {"x", "on"}


def test_any_object(server: Running):
    fields = {"response_format": {"type": "json_object", "schema": None}, "logit_bias": {"}": 20}}
    assert isinstance(json.loads(server.chat(max_tokens=200, **fields).json["choices"][0]["message"]["content"]), dict)


@pytest.mark.parametrize("path", ["/completion", "/v1/completions", "/v1/chat/completions"])
def test_a_grammar_is_followed(server: Running, path):
    body = {"grammar": 'root ::= "is " [ab]{3} "."', "max_tokens": 50, "temperature": 2.0}
    body |= {"messages": [{"role": "user", "content": "the"}]} if "chat" in path else {"prompt": "the"}
    reply = server.post(path, body).json
    choice = reply["choices"][0] if "choices" in reply else reply
    text = choice["message"]["content"] if "message" in choice else choice.get("text", choice.get("content"))
    assert re.fullmatch(r"is [ab]{3}\.", text)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (response_format(NOT), "at /properties/a/items: not supported: not"),
        ({"json_schema": NOT}, "at /properties/a/items: not supported: not"),
        (response_format({"type": "thing"}), "thing"),
        (response_format(None), "response_format"),
        ({"response_format": {"type": "json_object", "schema": {"$ref": "#/none"}}}, "$ref"),
        (response_format({"pattern": "("}), "pattern"),
        ({"grammar": "root ::= ["}, "grammar"),
        ({"grammar": "start ::= [a]"}, "root"),
        ({"grammar": 'root ::= "a"', "json_schema": {}}, "json_schema"),
        ({"grammar": 'root ::= "a"'} | response_format({}), "response_format"),
        ({"json_schema": 5}, "json_schema"),
    ],
)
def test_what_cannot_be_held_is_refused(server: Running, fields, said):
    reply = server.chat(**fields)
    assert reply.status == 400 and said in reply.error["message"]


def test_it_waits_for_the_end_of_a_thought_that_the_prompt_opened(opened: Running):
    body = opened.chat(max_tokens=40, seed=3, **response_format({"const": 7})).json
    message = body["choices"][0]["message"]
    assert body["usage"]["completion_tokens"] == 40 and message["content"] == "" and message["reasoning_content"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_goes_on_behind_its_thought_follows_it(opened: Running, stream):
    messages = [{"role": "user", "content": "the"}, {"role": "assistant", "content": "star</think>"}]
    body = {"messages": messages, "max_tokens": 60, "stream": stream, "seed": 1, "temperature": 2.0}
    reply = opened.post("/v1/chat/completions", body | response_format(POINT))
    if stream:
        text = "".join(e["choices"][0]["delta"].get("content") or "" for e in reply.events[:-1])
    else:
        text = reply.json["choices"][0]["message"]["content"]
    assert set(json.loads(text)) == {"x", "on"}


def test_a_thought_may_stand_before_it(may_think: Running):
    for seed in range(6):
        wish = response_format({"const": 7}) | {"seed": seed, "temperature": 1.5, "reasoning_format": "none"}
        choice = may_think.chat(max_tokens=60, **wish).json["choices"][0]
        text = choice["message"]["content"].strip()
        if choice["finish_reason"] == "stop":
            assert re.fullmatch(r"(<think>.*</think>\s*)?7", text, re.DOTALL)
        else:
            assert text.startswith("<think>") and "</think>" not in text  # it thinks on
