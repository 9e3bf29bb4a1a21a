"""The official openai client, against a server over a real model."""

import json
from collections.abc import Iterator
from typing import Literal

import pytest

from chenxing.server.settings import ServeSettings

openai = pytest.importorskip("openai")
pytestmark = [pytest.mark.peer, pytest.mark.model]

MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def client(smollm2_path) -> Iterator["openai.OpenAI"]:
    from server.running import Running

    settings = ServeSettings(str(smollm2_path), {"n_ctx": 1024}, sampling={"temp": 0.0})
    server = Running(settings)
    yield openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)
    server.close()


def test_chat(client):
    reply = client.chat.completions.create(model="any", messages=MESSAGES, max_tokens=20)
    assert reply.choices[0].message.content and reply.usage.completion_tokens <= 20


def test_chat_stream_with_usage_and_logprobs(client):
    stream = client.chat.completions.create(
        model="any",
        messages=MESSAGES,
        max_tokens=20,
        stream=True,
        stream_options={"include_usage": True},
        logprobs=True,
        top_logprobs=2,
    )
    *chunks, last = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    told = [t for c in chunks if c.choices[0].logprobs for t in c.choices[0].logprobs.content]
    assert text and "".join(t.token for t in told) == text
    assert last.choices == [] and last.usage.completion_tokens == len(told)


def test_completions_and_models(client, smollm2_path):
    reply = client.completions.create(model="any", prompt="The capital of France is", max_tokens=1, logprobs=2)
    assert reply.choices[0].text == " Paris" and reply.choices[0].logprobs.tokens == [" Paris"]
    assert [model.id for model in client.models.list()] == [smollm2_path.name]


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 20}, "unit": {"enum": ["C", "F"]}},
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}
ASK = {
    "model": "any",
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
    "tools": [WEATHER],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "max_tokens": 100,
}


def check(arguments: str) -> None:
    assert set(json.loads(arguments)) == {"city", "unit"}


def test_tools_and_their_results(client):
    (choice,) = client.chat.completions.create(**ASK).choices
    (call,) = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls" and call.function.name == "get_weather"
    check(call.function.arguments)
    result = {"role": "tool", "tool_call_id": call.id, "content": "18 C, sunny"}
    messages = [*ASK["messages"], choice.message.model_dump(exclude_none=True), result]
    reply = client.chat.completions.create(model="any", messages=messages, tools=[WEATHER], max_tokens=40)
    n_before = client.chat.completions.create(**ASK).usage.prompt_tokens
    assert reply.choices[0].message.content or reply.choices[0].message.tool_calls
    assert reply.usage.prompt_tokens_details.cached_tokens > n_before  # the call was not computed again


def test_streamed_tools(client):
    """Put together by the client's own helper."""
    with client.chat.completions.stream(**ASK) as stream:
        kinds = [event.type for event in stream]
        (call,) = stream.get_final_completion().choices[0].message.tool_calls
    assert "tool_calls.function.arguments.delta" in kinds and "tool_calls.function.arguments.done" in kinds
    check(call.function.arguments)


def test_a_named_tool(client):
    choice = {"type": "function", "function": {"name": "get_weather"}}
    (told,) = client.chat.completions.create(**ASK | {"tool_choice": choice}).choices
    assert [call.function.name for call in told.message.tool_calls] == ["get_weather"]


def test_parsed_answers(client):
    pydantic = pytest.importorskip("pydantic")

    class City(pydantic.BaseModel):
        name: Literal["Paris", "Rome"]
        is_capital: bool

    reply = client.chat.completions.parse(model="any", messages=MESSAGES, response_format=City, max_tokens=100)
    assert reply.choices[0].message.parsed.name in ("Paris", "Rome")


def test_any_json(client):
    wish = {"messages": [{"role": "user", "content": 'Repeat: {"a": 1}'}], "max_tokens": 40}
    reply = client.chat.completions.create(model="any", response_format={"type": "json_object"}, **wish)
    text = reply.choices[0].message.content
    assert text.startswith("{") and (reply.choices[0].finish_reason == "length" or isinstance(json.loads(text), dict))


def test_errors_are_its_own(client):
    with pytest.raises(openai.BadRequestError, match="context size"):
        client.chat.completions.create(model="any", messages=[{"role": "user", "content": "word " * 2000}])
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="any", input="text")


def test_a_stream_that_is_left(client):
    stream = client.chat.completions.create(model="any", messages=MESSAGES, max_tokens=500, stream=True)
    next(iter(stream))
    stream.close()
    reply = client.chat.completions.create(model="any", messages=MESSAGES, max_tokens=4)
    assert reply.usage.prompt_tokens_details.cached_tokens == reply.usage.prompt_tokens - 1
