"""llama-server's own protocol, and OpenAI's older one."""

from collections.abc import Iterator
from statistics import fmean

import pytest
from running import N_CTX, Running, running, toy_settings

PROMPT = "the star and that"


@pytest.fixture(scope="module")
def saving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("slots")
    yield from running(
        toy_settings(tmp_path_factory.mktemp("toy"), slot_save_path=folder, n_ctx_slot=N_CTX // 2, n_predict=7)
    )


def test_a_completion(server: Running):
    body = server.post("/completion", {"prompt": PROMPT, "n_predict": 4, "n_probs": 2}).json
    assert body["stop"] is True and body["stop_type"] == "limit" and body["truncated"] is False
    assert body["tokens_predicted"] == 4 and len(body["completion_probabilities"]) == 4
    assert body["tokens_cached"] == body["tokens_evaluated"] + 3
    assert body["generation_settings"]["n_predict"] == 4 and body["generation_settings"]["temperature"] == 0.0
    assert body["prompt"].endswith(PROMPT)


def test_a_stream_ends_with_everything(server: Running):
    whole = server.post("/completion", {"prompt": PROMPT, "n_predict": 4, "return_tokens": True}).json
    *chunks, last = server.post("/completion", {"prompt": PROMPT, "n_predict": 4, "stream": True}).events
    assert all(chunk["stop"] is False for chunk in chunks) and last["stop"] is True and last["content"] == ""
    assert "".join(chunk["content"] for chunk in chunks) == whole["content"]
    assert [token for chunk in chunks for token in chunk["tokens"]] == whole["tokens"]


def test_several_prompts(server: Running):
    bodies = server.post("/completion", {"prompt": [PROMPT, [1, 5, 6]], "n_predict": 2}).json
    assert [body["index"] for body in bodies] == [0, 1] and bodies[1]["tokens_evaluated"] == 3
    body = server.post("/v1/completions", {"prompt": [PROMPT, "some"], "n": 2, "max_tokens": 2}).json
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]
    assert body["usage"]["completion_tokens"] == 8
    lengths = [
        len(server.post("/tokenize", {"content": p, "add_special": True}).json["tokens"]) for p in (PROMPT, "some")
    ]
    assert body["usage"]["prompt_tokens"] == sum(lengths)


def test_the_likeliest_of_several(server: Running):
    fields = {"prompt": [PROMPT, "some"], "max_tokens": 4, "temperature": 1.0, "seed": 3, "logprobs": 0}
    all_of_them = server.post("/v1/completions", fields | {"n": 5}).json["choices"]
    expected = []
    for of_one in (all_of_them[:5], all_of_them[5:]):
        expected += sorted(of_one, key=lambda c: -fmean(c["logprobs"]["token_logprobs"]))[:2]
    found = server.post("/v1/completions", fields | {"n": 2, "best_of": 5}).json
    assert [c["text"] for c in found["choices"]] == [c["text"] for c in expected]
    assert [c["index"] for c in found["choices"]] == [0, 1, 2, 3] and found["usage"]["completion_tokens"] == 40
    del fields["logprobs"]
    silent = server.post("/v1/completions", fields | {"best_of": 5}).json["choices"]
    assert [c["text"] for c in silent] == [expected[0]["text"], expected[2]["text"]]
    assert all(c["logprobs"] is None for c in silent)


def test_logprobs_in_both_forms(server: Running):
    body = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 3, "logprobs": 2}).json
    told = body["choices"][0]["logprobs"]
    assert len(told["content"]) == len(told["tokens"]) == len(told["token_logprobs"]) == 3
    assert told["token_logprobs"] == [token["logprob"] for token in told["content"]]
    assert told["text_offset"][0] == 0 and len(told["top_logprobs"][0]) == 2


def test_why_it_ended(server: Running):
    text = server.post("/completion", {"prompt": PROMPT, "n_predict": 30}).json["content"]
    body = server.post("/completion", {"prompt": PROMPT, "n_predict": 30, "stop": ["§", text[4:6]]}).json
    assert body["stop_type"] == "word" and body["stopping_word"] == text[4:6]
    full = server.post("/completion", {"prompt": PROMPT, "ignore_eos": True}).json
    biases = full["generation_settings"]["logit_bias"]
    assert biases and all(bias["bias"] is None for bias in biases)
    assert full["truncated"] is True and full["tokens_evaluated"] + full["tokens_predicted"] == N_CTX


def test_chosen_fields(server: Running):
    fields = ["content", "generation_settings/top_k", "nothing/here"]
    body = server.post("/completion", {"prompt": PROMPT, "n_predict": 1, "response_fields": fields}).json
    assert set(body) == {"content", "generation_settings/top_k"}


def test_probabilities_after_sampling(server: Running):
    wish = {"prompt": PROMPT, "n_predict": 3, "n_probs": 5, "post_sampling_probs": True, "temperature": 1, "top_k": 3}
    for token in server.post("/completion", wish).json["completion_probabilities"]:
        assert len(token["top_probs"]) <= 3 and 0 < token["prob"] <= 1
        assert sum(t["prob"] for t in token["top_probs"]) == pytest.approx(1, abs=1e-6)  # f32 shares


def test_infill_needs_a_model_for_it(server: Running):
    reply = server.post("/infill", {"input_prefix": "the", "input_suffix": "star"})
    assert reply.status == 501 and "middle token is missing" in reply.error["message"]


def test_tokens_there_and_back(server: Running):
    ids = server.post("/tokenize", {"content": "the 晨星 🤗"}).json["tokens"]
    assert server.post("/detokenize", {"tokens": ids}).json["content"] == "the 晨星 🤗"
    pieces = server.post("/tokenize", {"content": "the 🤗", "with_pieces": True}).json["tokens"]
    data = b"".join(p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"]) for p in pieces)
    assert data.decode().replace("▁", " ").strip() == "the 🤗"


def test_what_runs_here(server: Running):
    assert server.get("/health").json == {"status": "ok"}
    props = server.get("/props").json
    assert props["default_generation_settings"]["n_ctx"] == N_CTX and props["total_slots"] == 4
    (model,) = server.get("/v1/models").json["data"]
    assert model["id"] == "toy" == server.get("/v1/models/owner/toy").json["id"]
    assert [slot["is_processing"] for slot in server.get("/slots").json] == [False] * 4
    assert server.post("/props", {}).status == 501


def test_metrics_count_what_answers_say(server: Running):
    def figures() -> dict[str, float]:
        lines = server.get("/metrics").data.decode().splitlines()
        return {line.split(" ")[0]: float(line.split(" ")[1]) for line in lines if not line.startswith("#")}

    before = figures()
    timings = server.post("/completion", {"prompt": "work after back", "n_predict": 5}).json["timings"]
    after = figures()
    for name, n in (
        ("prompt_tokens", "prompt_n"),
        ("prompt_tokens_cached", "cache_n"),
        ("tokens_predicted", "predicted_n"),
    ):
        name = f"llamacpp:{name}_total"
        assert after[name] - before[name] == timings[n]
    assert after["llamacpp:requests_processing"] == 0 and after["llamacpp:kv_pages_free"] == after["llamacpp:kv_pages"]


def test_a_slot_is_saved_and_restored(saving: Running):
    first = saving.post("/completion", {"prompt": PROMPT, "n_predict": 5, "id_slot": 2}).json
    n_used = first["tokens_cached"]
    saved = saving.post("/slots/2?action=save", {"filename": "a.bin"}).json
    assert saved["n_saved"] == n_used
    restored = saving.post("/slots/0?action=restore", {"filename": "a.bin"}).json
    assert restored["n_restored"] == n_used and restored["n_read"] == saved["n_written"]
    assert saving.post("/slots/0?action=erase", {}).status == 200
    assert saving.post("/slots/0?action=save", {"filename": "b.bin"}).json["n_saved"] == 0


@pytest.mark.parametrize(
    "name", ["../a.bin", "/etc/passwd", "a/b", "", ".hidden", "a\0b", "x" * 200, "nul.bin", "none.bin"]
)
def test_slot_files_stay_in_their_folder(saving: Running, name):
    for action in ("save", "restore") if name != "none.bin" else ("restore",):
        assert saving.post(f"/slots/0?action={action}", {"filename": name}).status == 400


def test_a_slot_that_cannot_be_written_is_told(saving: Running):
    (saving.service.settings.slot_save_path / "folder").mkdir()
    told = saving.post("/slots/0?action=save", {"filename": "folder"})
    assert told.status == 400 and "folder cannot be written: Is a directory" in told.json["error"]["message"]


def test_slot_actions_are_off_by_default(server: Running):
    assert server.post("/slots/0?action=save", {"filename": "a"}).status == 501


def test_the_servers_length_is_for_requests_that_do_not_say(saving: Running):
    for asked, got in ((3, 3), (20, 20), (None, 7)):
        body = saving.post("/completion", {"prompt": PROMPT, "n_predict": asked, "ignore_eos": True}).json
        assert body["tokens_predicted"] == got == body["generation_settings"]["n_predict"]


def test_prompts_are_shown_to_those_who_ask(server: Running):
    assert "__verbose" not in server.chat().json
    assert "user: the star" in server.chat(verbose=True).json["__verbose"]["prompt"]


def test_a_share_of_the_context(saving: Running):
    reply = saving.post("/completion", {"prompt": [5] * 300})
    assert reply.error["n_ctx"] == N_CTX // 2


def test_a_full_context_shifts_where_it_may(tmp_path_factory: pytest.TempPathFactory):
    settings = toy_settings(tmp_path_factory.mktemp("toy"), n_ctx_slot=64, context_shift=True, n_keep=4)
    for shifting in running(settings):
        wish = {"prompt": [5, 6, 7] * 10, "n_predict": 100, "ignore_eos": True, "return_tokens": True}
        body = shifting.post("/completion", wish).json
        assert body["tokens_predicted"] == 100 == len(body["tokens"]) and body["truncated"] is True
        assert body["stop_type"] == "limit" and body["tokens_cached"] < 64
        assert shifting.post("/completion", wish | {"n_predict": 5}).json["truncated"] is False
        assert shifting.post("/completion", wish | {"prompt": [5] * 64}).status == 400


def test_an_erased_slot_is_forgotten(saving: Running):
    wish = {"prompt": "because any these give day", "n_predict": 20, "id_slot": 1, "ignore_eos": True}
    first = saving.post("/completion", wish).json
    assert saving.post("/completion", wish).json["timings"]["prompt_n"] == 1
    n_erased = saving.post("/slots/1?action=erase", {}).json["n_erased"]
    assert n_erased > first["timings"]["prompt_n"]
    assert saving.post("/completion", wish).json["timings"]["prompt_n"] == first["timings"]["prompt_n"]
