"""OpenAI's chat protocol: bodies and streams as strict clients parse them."""

import pytest
from running import Running


def test_a_whole_answer(server: Running):
    body = server.chat().json
    assert body["object"] == "chat.completion" and body["model"] == "toy" and body["id"].startswith("chatcmpl-")
    (choice,) = body["choices"]
    assert choice["index"] == 0 and choice["finish_reason"] == "length"
    assert choice["message"]["role"] == "assistant" and isinstance(choice["message"]["content"], str)
    usage = body["usage"]
    assert usage["completion_tokens"] == 6
    assert usage["total_tokens"] == usage["prompt_tokens"] + 6
    assert body["timings"]["predicted_n"] == 6


def test_a_repeated_prompt_is_found_in_the_cache(server: Running):
    first = server.chat("also want well work").json
    again = server.chat("also want well work").json
    details = again["usage"]["prompt_tokens_details"]
    assert details["cached_tokens"] == again["usage"]["prompt_tokens"] - 1 == again["timings"]["cache_n"]
    assert again["choices"][0]["message"] == first["choices"][0]["message"]


def test_a_stream_says_what_a_body_says(server: Running):
    whole = server.chat("give day").json
    reply = server.chat("give day", stream=True)
    assert reply.headers["Content-Type"].startswith("text/event-stream")
    *events, done = reply.events
    assert done == "[DONE]"
    assert len({event["id"] for event in events}) == 1
    deltas = [event["choices"][0]["delta"] for event in events]
    assert deltas[0] == {"role": "assistant", "content": None} and deltas[-1] == {}
    assert all(set(delta) == {"content"} for delta in deltas[1:-1])
    assert "".join(delta["content"] for delta in deltas[1:-1]) == whole["choices"][0]["message"]["content"]
    reasons = [event["choices"][0]["finish_reason"] for event in events]
    assert reasons == [None] * (len(events) - 1) + ["length"]
    assert not any("usage" in event for event in events)


def test_usage_comes_in_a_chunk_without_choices(server: Running):
    *_, end, usage, done = server.chat(stream=True, stream_options={"include_usage": True}).events
    assert end["choices"][0]["finish_reason"] == "length" and done == "[DONE]"
    assert usage["choices"] == [] and usage["usage"]["completion_tokens"] == 6


def test_choices_have_seeds_of_their_own(server: Running):
    body = server.chat(n=3, temperature=2.0, seed=7).json
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    texts = [choice["message"]["content"] for choice in body["choices"]]
    assert len(set(texts)) > 1
    assert body["usage"]["completion_tokens"] == 18
    again = server.chat(n=3, temperature=2.0, seed=7).json
    assert [choice["message"]["content"] for choice in again["choices"]] == texts


def test_streamed_choices_are_the_same(server: Running):
    whole = server.chat(n=2, temperature=2.0, seed=7).json
    texts = ["", ""]
    roles = [0, 0]
    for event in server.chat(n=2, temperature=2.0, seed=7, stream=True).events[:-1]:
        choice = event["choices"][0]
        roles[choice["index"]] += "role" in choice["delta"]
        texts[choice["index"]] += choice["delta"].get("content") or ""
    assert texts == [choice["message"]["content"] for choice in whole["choices"]] and roles == [1, 1]


def test_a_stop_string_ends_the_answer_and_is_not_shown(server: Running):
    text = server.chat(max_tokens=20).json["choices"][0]["message"]["content"]
    stop = text[3:5]
    choice = server.chat(max_tokens=20, stop=stop).json["choices"][0]
    assert choice["finish_reason"] == "stop" and choice["message"]["content"] == text[: text.index(stop)]


def test_max_completion_tokens_goes_before_max_tokens(server: Running):
    assert server.chat(max_tokens=9, max_completion_tokens=2).json["usage"]["completion_tokens"] == 2


def test_logprobs_are_of_the_tokens_of_the_text(server: Running):
    choice = server.chat(logprobs=True, top_logprobs=3).json["choices"][0]
    told = choice["logprobs"]["content"]
    assert len(told) == 6
    joined = b"".join(bytes(token["bytes"]) for token in told)
    assert joined.decode(errors="replace") == choice["message"]["content"]
    for token in told:
        top = token["top_logprobs"]
        assert len(top) == 3 and token["logprob"] == top[0]["logprob"] <= 0  # greedy
        assert sorted((t["logprob"] for t in top), reverse=True) == [t["logprob"] for t in top]


def test_streamed_logprobs_are_the_same(server: Running):
    whole = server.chat(logprobs=True, top_logprobs=2).json["choices"][0]["logprobs"]["content"]
    events = server.chat(logprobs=True, top_logprobs=2, stream=True).events[:-1]
    streamed = [t for e in events for t in e["choices"][0].get("logprobs", {"content": []})["content"]]
    assert streamed == whole


def test_logit_bias_bans_a_token(server: Running):
    first = server.chat(logprobs=True).json["choices"][0]["logprobs"]["content"][0]["id"]
    told = server.chat(logprobs=True, logit_bias={str(first): -100}).json["choices"][0]["logprobs"]["content"]
    assert first not in [token["id"] for token in told]


def test_progress_of_the_prompt(server: Running):
    text = "about there would other into more time some could them than like now over only its " * 3
    events = server.chat(text, stream=True, return_progress=True, timings_per_token=True).events[:-1]
    reports = [event["prompt_progress"] for event in events if "prompt_progress" in event]
    assert len(reports) >= 2 and reports[0]["processed"] == reports[0]["cache"]
    done = [report["processed"] for report in reports]
    assert done == sorted(set(done)) and done[-1] == reports[0]["total"]
    first = next(event for event in events if "prompt_progress" in event)
    assert first["timings"]["prompt_n"] == first["timings"]["predicted_n"] == 0


@pytest.mark.parametrize(
    "content",
    ["the star", [{"type": "text", "text": "the star"}]],
    ids=["text", "parts"],
)
def test_forms_of_content(server: Running, content):
    messages = [
        {"role": "developer", "content": "some"},
        {"role": "user", "content": content},
        {"role": "assistant", "content": None, "reasoning_content": "even"},
        {"role": "user", "content": content},
    ]
    body = {"messages": messages, "max_tokens": 1}
    assert server.post("/chat/completions", body).status == 200
    counted = server.post("/v1/chat/completions/input_tokens", body).json["input_tokens"]
    assert counted == server.post("/v1/chat/completions", body).json["usage"]["prompt_tokens"]


def test_an_assistants_message_at_the_end_is_continued(server: Running):
    messages = [{"role": "user", "content": "the"}, {"role": "assistant", "content": "star wo"}]
    prompt = server.post("/apply-template", {"messages": messages}).json["prompt"]
    assert prompt.endswith("assistant: star wo")
    two = [*messages, {"role": "assistant", "content": "more"}]
    assert server.post("/v1/chat/completions", {"messages": two}).status == 400
    both = {"messages": messages, "add_generation_prompt": True, "continue_final_message": True}
    assert "continue_final_message" in server.post("/v1/chat/completions", both).error["message"]


def test_values_for_the_template(server: Running):
    messages = [{"role": "user", "content": "the"}]
    kwargs = {"enable_thinking": False}
    prompt = server.post("/apply-template", {"messages": messages, "chat_template_kwargs": kwargs}).json["prompt"]
    assert prompt.endswith("assistant: <think></think>")  # what it opens although it should not is closed
    assert "messages" in server.chat(chat_template_kwargs={"messages": []}).error["message"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_thought_is_told_apart(server: Running, stream):
    """The prompt opens one, and the toy never closes it."""
    opened = {"chat_template_kwargs": {"enable_thinking": True}, "max_tokens": 30}
    tagged = server.chat(**opened, reasoning_format="none").json["choices"][0]["message"]
    assert tagged["content"] and "reasoning_content" not in tagged
    reply = server.chat(**opened, stream=stream)
    if stream:
        deltas = [event["choices"][0]["delta"] for event in reply.events[:-1]]
        thought = "".join(delta.get("reasoning_content", "") for delta in deltas)
        assert not any(delta.get("content") for delta in deltas)
    else:
        message = reply.json["choices"][0]["message"]
        thought = message["reasoning_content"]
        assert message["content"] == ""
    assert thought == tagged["content"].strip()
    assert server.chat(reasoning_format="deepseek-legacy").status == 400
