"""Conversations over HTTP: the next turn finds the keys and values of the last answer, to the token."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from running import Running, running, toy_settings, until

TEMPLATE = (
    "{% for m in messages %}{{ m.role }}:{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
# hot, and none of the tokens that stand for bytes: words in pieces that the tokenizer would join
WILD = {"temperature": 3.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 5, "ignore_eos": True, "max_tokens": 40}
NO_BYTES = {"logit_bias": {str(token): False for token in range(3, 259)}}


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("toy")
    options = toy_settings(folder).model_options | {"chat_template": TEMPLATE}
    yield from running(toy_settings(folder, model_options=options))


def say(server: Running, messages: list[dict[str, str]], **fields: Any) -> dict[str, Any]:
    return server.post("/v1/chat/completions", {"messages": messages} | WILD | NO_BYTES | fields).json


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def n_tokens(server: Running, text: str) -> int:
    return len(server.post("/tokenize", {"content": text}).json["tokens"])


def cached(body: dict[str, Any]) -> int:
    return body["usage"]["prompt_tokens_details"]["cached_tokens"]


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_comes_back_is_spelt_as_it_was(talking: Running, stream):
    messages = [user(f"the star {stream}")]
    if stream:
        reply = talking.post("/v1/chat/completions", {"messages": messages, "stream": True} | WILD | NO_BYTES)
        text = "".join(e["choices"][0]["delta"].get("content") or "" for e in reply.events[:-1])
        n_prompt = say(talking, messages)["usage"]["prompt_tokens"]
    else:
        body = say(talking, messages)
        text, n_prompt = body["choices"][0]["message"]["content"], body["usage"]["prompt_tokens"]
    assert n_tokens(talking, text) != WILD["max_tokens"]  # the tokenizer would choose others
    body = say(talking, [*messages, {"role": "assistant", "content": text}, user("and")])
    assert cached(body) == n_prompt + WILD["max_tokens"] - 1  # the last one was never computed


def test_a_raw_prompt_too(talking: Running):
    before = "user: any</s>assistant:"
    wish = {"prompt": before, "n_predict": 40, "return_tokens": True} | WILD | NO_BYTES
    body = talking.post("/completion", wish).json
    again = talking.post("/completion", wish | {"prompt": f"{before}{body['content']}</s>user: and"}).json
    assert again["timings"]["cache_n"] == body["tokens_evaluated"] + 39 and len(body["tokens"]) == 40


def test_what_a_client_strips_ends_the_prefix_there(talking: Running):
    messages = [user("some will")]
    body = say(talking, messages)
    text = body["choices"][0]["message"]["content"]
    stripped = say(talking, [*messages, {"role": "assistant", "content": text[-9:].strip()}, user("and")])
    assert cached(stripped) >= body["usage"]["prompt_tokens"] - 1


def test_an_answer_that_was_left_is_remembered_as_far_as_it_came(talking: Running, monkeypatch):
    llm = talking.service.model
    told: list[tuple[list[int], str]] = []
    monkeypatch.setattr(llm, "remember", lambda _prompt, ids, text: told.append((list(ids), text)))
    connection = talking.connection()
    wish = {"messages": [user("could them")], "stream": True} | WILD | NO_BYTES | {"max_tokens": 400}
    connection.request("POST", "/v1/chat/completions", json.dumps(wish))
    response = connection.getresponse()
    seen = ""
    while len(seen) < 30:
        line = response.readline()
        if line.startswith(b"data: "):
            seen += json.loads(line[6:])["choices"][0]["delta"].get("content") or ""
    response.close()
    connection.close()
    assert until(lambda: bool(told))
    ((ids, text),) = told
    assert text.startswith(seen) and 0 < len(ids) < 400 and llm.tokenizer.join(ids).decode() == text
