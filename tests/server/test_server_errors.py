"""A client's mistake is a 4xx that names the field, in the protocol's own shape; never a 500."""

import pytest
from running import N_CTX, Running

USER = [{"role": "user", "content": "the"}]

WRONG = [
    ({}, "messages"),
    ({"messages": None}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": "the"}, "messages"),
    ({"messages": [1]}, "messages[0]"),
    ({"messages": [{"role": "stranger", "content": "the"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]}, "image_url"),
    ({"messages": USER, "max_tokens": "5"}, "max_tokens"),
    ({"messages": USER, "max_tokens": -2}, "max_tokens"),
    ({"messages": USER, "temperature": "hot"}, "temperature"),
    ({"messages": USER, "repeat_penalty": -1}, "repeat_penalty"),
    ({"messages": USER, "top_p": 1.5}, "top_p"),
    ({"messages": USER, "seed": 2**70}, "seed"),
    ({"messages": USER, "n": 0}, "n"),
    ({"messages": USER, "n": 1000}, "n"),
    ({"messages": USER, "stop": 1}, "stop"),
    ({"messages": USER, "stream": "yes"}, "stream"),
    ({"messages": USER, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
    ({"messages": USER, "top_logprobs": 2}, "top_logprobs"),
    ({"messages": USER, "logprobs": True, "top_logprobs": -1}, "top_logprobs"),
    ({"messages": USER, "logit_bias": {"3": True}}, "logit_bias"),
    ({"messages": USER, "logit_bias": {"99999": 1}}, "logit_bias"),
    ({"messages": USER, "samplers": ["luck"]}, "samplers"),
    ({"messages": USER, "tool_choice": "perhaps"}, "tool_choice"),
    ({"messages": USER, "tool_choice": "required"}, "tool_choice"),
    ({"messages": USER, "response_format": {"type": "sound"}}, "response_format.type"),
    ({"messages": USER, "chat_template_kwargs": 1}, "chat_template_kwargs"),
]


@pytest.mark.parametrize(("body", "field"), WRONG, ids=[str(i) for i in range(len(WRONG))])
def test_a_wrong_field_is_named(server: Running, body, field):
    reply = server.post("/v1/chat/completions", body)
    assert reply.status == 400
    assert reply.error["type"] == "invalid_request_error" and reply.error["code"] == 400
    assert field in reply.error["message"]


@pytest.mark.parametrize(
    "fields",
    [
        {"functions": [{"name": "look"}]},
        {"function_call": "auto"},
        {"grammar_lazy": True},
        {"lora": [{"id": 0, "scale": 1}]},
        {"adaptive_target": 0.5},
    ],
    ids=["functions", "function_call", "grammar_lazy", "lora", "adaptive_target"],
)
def test_what_cannot_be_enforced_is_refused(server: Running, fields):
    reply = server.chat(**fields)
    assert reply.status == 400 and reply.error["type"] == "not_supported_error"
    assert next(iter(fields)) in reply.error["message"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/completion", {}, "prompt"),
        ("/completion", {"prompt": "the", "n_predict": -5}, "n_predict"),
        ("/completion", {"prompt": [1, 99999]}, "prompt"),
        ("/completion", {"prompt": []}, "prompt"),
        ("/completion", {"prompt": [[1], {"prompt_string": 1}]}, "prompt[1]"),
        ("/completion", {"prompt": {"prompt_string": "the", "multimodal_data": ["x"]}}, "multimodal_data"),
        ("/v1/completions", {"prompt": "the", "echo": True}, "echo"),
        ("/v1/completions", {"prompt": "the", "suffix": "end"}, "suffix"),
        ("/v1/completions", {"prompt": "the", "best_of": 3, "stream": True}, "best_of"),
        ("/v1/completions", {"prompt": "the", "n": 2, "best_of": 1}, "best_of"),
        ("/tokenize", {"content": 1}, "content"),
        ("/detokenize", {"tokens": [-1]}, "tokens[0]"),
        ("/detokenize", {"tokens": ["the"]}, "tokens[0]"),
        ("/apply-template", {"messages": []}, "messages"),
        ("/infill", {"input_prefix": "the"}, "input_suffix"),
    ],
)
def test_other_paths_too(server: Running, path, body, field):
    reply = server.post(path, body)
    assert reply.status == 400 and field in reply.error["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(server: Running, stream):
    reply = server.post("/completion", {"prompt": [5] * N_CTX, "stream": stream})
    assert reply.status == 400 and reply.error["type"] == "exceed_context_size_error"
    assert (reply.error["n_prompt_tokens"], reply.error["n_ctx"]) == (N_CTX, N_CTX)
    assert server.post("/completion", {"prompt": [5] * (N_CTX - 1)}).json["tokens_predicted"] == 1


@pytest.mark.parametrize(
    "data",
    [b'{"messages": [', b"\xff\xfe", b"[]", b'"text"', b"[" * 100_000, b'{"messages":' + b'[{"a":' * 50_000],
    ids=["cut", "no UTF-8", "list", "string", "deep list", "deep objects"],
)
def test_bodies_that_are_no_request(server: Running, data):
    reply = server.post("/v1/chat/completions", data)
    assert reply.status == 400 and reply.error["type"] == "invalid_request_error"


def test_a_body_that_is_too_large(server: Running):
    reply = server.post("/tokenize", {"content": "a" * 2**20})
    assert reply.status == 413 and "1048576" in reply.error["message"]


@pytest.mark.parametrize(("method", "path"), [("GET", "/nope"), ("GET", "/v1/chat/completions"), ("POST", "/health")])
def test_no_such_path(server: Running, method, path):
    reply = server.ask(method, path)
    assert reply.status == 404 and reply.error["type"] == "not_found_error"
