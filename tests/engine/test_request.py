"""A request's own part: where its answer ends, what text is held back, what is counted."""

import pytest
from engine.fake_model import LETTERS, FakeSampler, Letters, request

from chenxing.engine import Limits, Request
from chenxing.tokenizer.stream import StreamDecoder

N_CTX = 100


def tokens(text: str) -> list[int]:
    return [LETTERS.index(c) for c in text]


def feed(r: Request, text: str) -> list[str]:
    """The text that each token shows, until the answer ends."""
    shown = []
    for token in tokens(text):
        shown.append(r.take(token, N_CTX))
        if r.finish_reason:
            break
    return shown


def test_text_that_may_begin_a_stop_string_is_held_back() -> None:
    r = request([1, 2], limits=Limits(stop=("end",)))
    assert feed(r, "axendb") == ["a", "x", "", "", ""]
    assert (r.text, r.finish_reason, len(r.token_ids)) == ("ax", "stop", 5)


@pytest.mark.parametrize("reason", ["length", "cancelled"])
def test_held_text_comes_when_the_answer_ends_otherwise(reason: str) -> None:
    r = request([1], limits=Limits(max_tokens=3, stop=("end",)))
    if reason == "length":
        assert feed(r, "aenx") == ["a", "", "en"]
    else:
        assert feed(r, "ae") == ["a", ""] and r.end("cancelled") == "e"
    assert r.finish_reason == reason and r.text.startswith("ae")


def test_a_stop_string_at_the_last_token_is_a_stop() -> None:
    r = request([1], limits=Limits(max_tokens=2, stop=("ab",)))
    feed(r, "ab")
    assert (r.text, r.finish_reason) == ("", "stop")


def test_a_token_that_ends_the_generation_is_not_part_of_it() -> None:
    r = request([1], limits=Limits(end_ids=tokens("z")))
    assert feed(r, "bzb") == ["b", ""] and r.token_ids == tokens("b") and r.finish_reason == "stop"


def test_the_last_token_of_a_context_needs_no_place() -> None:
    r = request([1] * (N_CTX - 2))
    feed(r, "abcd")
    assert (r.text, r.finish_reason, len(r.ids)) == ("abc", "length", N_CTX + 1)


def test_half_a_character_is_shown_as_such_at_the_end() -> None:
    pieces = ["晨".encode()[:2], "晨".encode()[2:]]
    whole = Request([1], FakeSampler(), StreamDecoder(pieces.__getitem__), Limits(max_tokens=2))
    assert [whole.take(0, N_CTX), whole.take(1, N_CTX)] == ["", "晨"]
    half = Request([1], FakeSampler(), StreamDecoder(pieces.__getitem__), Limits(max_tokens=1))
    assert half.take(0, N_CTX) == "\ufffd" == half.text


def test_what_is_counted() -> None:
    r = Request([1, 2, 3], FakeSampler(), Letters())
    feed(r, "abcd")
    assert (r.stats.n_prompt, r.stats.n_generated) == (3, 4)
    assert r.stats.prompt_ms > 0 and r.stats.generation_ms > 0
    event = r.event("d", (3,))
    assert (event.n_computed, event.tokens, event.text, event.finish_reason) == (0, (3,), "d", None)
