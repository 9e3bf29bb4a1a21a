"""The official openai client, against a server over a real model."""

from collections.abc import Iterator

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
