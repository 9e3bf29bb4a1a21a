"""Answers of a real model: what is reused changes no bit, and the ends are what they say."""

import numpy as np
import pytest

from chenxing import LLM
from chenxing.engine import EngineThread, Generation
from chenxing.errors import ContextError, UsageError
from chenxing.sampling import Sampler, SamplingParams

pytestmark = pytest.mark.model
GREEDY = SamplingParams(temp=0.0)


@pytest.fixture(scope="module")
def llm(smollm2_path):
    with LLM.load(smollm2_path, n_ctx=1024, disk_cache=False, cache_ram_bytes=0) as llm:
        yield llm


def bits(x: np.ndarray) -> np.ndarray:
    return x.view(np.int32)


def test_the_capital_of_france(llm):
    answer = llm.generate("The capital of France is", raw=True, params=GREEDY, max_tokens=1)
    assert answer.text == " Paris" and answer.finish_reason == "length" and answer.stats.n_generated == 1


def test_an_answer_ends_by_itself(llm):
    answer = llm.chat([{"role": "user", "content": "Say just: hello"}], params=GREEDY, max_tokens=200)
    assert answer.finish_reason == "stop" and answer.text and "<|im_end|>" not in answer.text
    assert answer.token_ids == llm.tokenize(answer.text, add_special=False)


def test_pieces_are_the_text(llm):
    generation = llm.stream("Count to ten.", params=GREEDY, max_tokens=40)
    assert "".join(generation) == generation.text
    assert len(generation.token_ids) == generation.stats.n_generated


def test_reuse_is_exact_and_counted(llm):
    ids = llm.tokenize("It was a dark and stormy night; the rain fell in torrents. " * 8)
    cold = llm.logits(ids, len(ids) - 1)[0].copy()
    engine = llm._engine
    n_cached, logits = engine.prompt(ids)
    assert n_cached == 0 and np.array_equal(bits(logits), bits(cold))  # logits() keeps nothing
    n_cached, logits = engine.prompt(ids)
    assert n_cached == len(ids) - 1  # the last one is always computed
    assert np.array_equal(bits(logits), bits(cold))
    other = [*ids[:50], *ids[60:]]
    n_cached, _ = engine.prompt(other)
    assert n_cached >= 50
    n_cached, logits = engine.prompt(ids)
    assert 50 <= n_cached < len(ids) and np.array_equal(bits(logits), bits(cold))


def test_a_conversation_continues_from_its_kv(llm):
    first = llm.chat([{"role": "user", "content": "Name a colour."}], params=GREEDY, max_tokens=20)
    history = [
        {"role": "user", "content": "Name a colour."},
        {"role": "assistant", "content": first.text},
        {"role": "user", "content": "Another one."},
    ]
    second = llm.chat(history, params=GREEDY, max_tokens=5)
    assert second.stats.n_cached >= first.stats.n_prompt


def test_prefill_reports_and_cancels(llm):
    seen = []
    ids = list(np.random.default_rng(0).integers(0, 40000, 700))
    text = llm.detokenize(ids)

    def cancel_at_once(done: int, total: int) -> None:
        seen.append((done, total))
        generation.cancel()

    generation = llm.stream(text, raw=True, max_tokens=3, on_prefill=cancel_at_once)
    assert list(generation) == [] and generation.finish_reason == "cancelled" and len(seen) == 1
    generation = llm.stream(text, raw=True, max_tokens=3)
    generation.drain()
    assert generation.stats.n_cached == seen[0][0]  # what was computed before the end is kept
    generation = llm.stream(text, raw=True, max_tokens=3)
    generation.cancel()
    assert list(generation) == [] and generation.stats.prompt_ms == 0  # nothing is computed for it


def test_stop_strings(llm):
    free = llm.generate("Count: 1, 2, 3,", raw=True, params=GREEDY, max_tokens=30).text
    stop = free[5:8]
    answer = llm.generate("Count: 1, 2, 3,", raw=True, params=GREEDY, max_tokens=30, stop=[stop])
    assert answer.text == free[: free.index(stop)] and answer.finish_reason == "stop"


def test_max_tokens_zero_computes_nothing(llm):
    answer = llm.generate("Hi", max_tokens=0)
    assert (answer.text, answer.finish_reason, answer.stats.n_generated) == ("", "length", 0)


def test_a_full_context_ends_the_answer(smollm2_path):
    with LLM.load(smollm2_path, n_ctx=64, disk_cache=False) as small:
        answer = small.generate("Once upon a time", raw=True, params=SamplingParams(temp=0.0, ignore_eos=True))
        assert answer.finish_reason == "length"
        assert answer.stats.n_prompt + answer.stats.n_generated == 64 + 1  # the last token needs no place
        with pytest.raises(ContextError, match=r"the prompt has \d+ tokens, the context holds 64"):
            small.generate("word " * 100, raw=True)


def test_bad_arguments(llm):
    with pytest.raises(UsageError, match="max_tokens"):
        llm.stream("x", max_tokens=-1)
    with pytest.raises(UsageError, match="0 to 49151"):
        llm.logits([49152])


def test_the_same_bits_for_any_number_of_threads(smollm2_path, llm):
    ids = llm.tokenize("The quick brown fox jumps over the lazy dog. " * 6)
    expected = llm.logits(ids, len(ids) - 3)
    for n_threads in (1, 3):
        with LLM.load(smollm2_path, n_ctx=256, n_threads=n_threads, disk_cache=False) as other:
            assert np.array_equal(bits(expected), bits(other.logits(ids, len(ids) - 3)))


def test_seeds_decide(llm):
    params = SamplingParams(temp=1.0, seed=7)
    texts = [llm.generate("Tell me a story.", params=params, max_tokens=12).text for _ in range(2)]
    assert texts[0] == texts[1]


def test_an_answer_goes_on_after_other_uses_of_the_engine(llm):
    whole = llm.generate("Count: 1, 2, 3,", raw=True, params=GREEDY, max_tokens=12).text
    ids = llm.tokenize("It was a dark and stormy night. " * 100)
    generation = llm.stream("Count: 1, 2, 3,", raw=True, params=GREEDY, max_tokens=12)
    first = next(generation)
    llm.logits(ids, len(ids) - 1)  # takes most of the memory
    assert first + "".join(generation) == whole == generation.text
    assert generation.stats.n_preemptions == 1


def test_answers_at_once_are_those_that_come_alone(llm):
    prompts = ["The capital of France is", "Count: 1, 2, 3,", "Once upon a time", "The capital of France was"]
    options = {"raw": True, "params": SamplingParams(temp=1.0, seed=3), "max_tokens": 10}
    alone = [llm.generate(p, **options).text for p in prompts]

    def start(prompt):
        ids = llm.tokenize(prompt)
        sampler = Sampler(options["params"], llm.n_vocab, eog_ids=llm.tokenizer.eog_ids, prompt=ids)
        return Generation(llm.engine, llm.tokenizer, sampler, ids, max_tokens=10)

    mine = [start(p) for p in prompts]
    pieces = ["", "", "", ""]
    for _ in range(10):
        for i, generation in enumerate(mine):
            pieces[i] += next(generation, "")
    assert pieces == alone and [g.finish_reason for g in mine] == ["length"] * 4
    assert llm.engine.stats().n_running == 0


def test_a_driven_engine_serves_many_and_the_rest_of_the_api(llm):
    alone = llm.generate("Count: 1, 2, 3,", raw=True, params=GREEDY, max_tokens=8).text
    thread = EngineThread(llm.engine)
    try:
        answers = [llm.stream("Count: 1, 2, 3,", raw=True, params=GREEDY, max_tokens=8) for _ in range(2)]
        assert answers[1].drain().text == alone
        assert answers[0].drain().finish_reason == "cancelled"  # the second one ended it
        assert thread.call(llm.engine.stats).n_running == 0
    finally:
        thread.close()
    assert llm.generate("Count: 1, 2, 3,", raw=True, params=GREEDY, max_tokens=8).text == alone
