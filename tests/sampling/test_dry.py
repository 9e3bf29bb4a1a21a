import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logit_rows import EVERY_TIME, row

from chenxing.sampling.candidates import all_tokens
from chenxing.sampling.dry import Breakers, dry

TEXTS = [b"a", b"b", b"c", b"\n", b"ab", b"x\n", b"c\n\n", b""]


def breakers(*texts: str) -> Breakers:
    return Breakers(texts, TEXTS.__getitem__)


def slow_n_since(window: list[int], texts: list[str]) -> int:
    """Tokens after the last breaker: of those that begin last, the one that ends last, on the joined text."""
    joined = b"".join(TEXTS[token] for token in window)
    starts = np.cumsum([0] + [len(TEXTS[token]) for token in window]).tolist()
    best = (-1, -1)
    for text in (text.encode() for text in texts if text):
        at = joined.find(text)
        while at >= 0:
            first = max(i for i in range(len(window)) if starts[i] <= at)
            last = min(i for i in range(len(window)) if starts[i + 1] >= at + len(text))
            best = max(best, (first, last))
            at = joined.find(text, at + 1)
    return len(window) - 1 - best[1] if best[0] >= 0 else len(window)


def slow_penalties(
    window: list[int], texts: list[str], multiplier: float, base: float, allowed: int
) -> dict[int, float]:
    limit = slow_n_since(window, texts)
    longest: dict[int, int] = {}
    for end in range(len(window) - 1):
        length = 0
        while length < min(limit, end + 1) and window[end - length] == window[-1 - length]:
            length += 1
        if length >= allowed:
            token = window[end + 1]
            longest[token] = max(longest.get(token, 0), length)
    if len(window) <= allowed or limit < allowed:
        return {}
    whole = [token for token in longest if any(text.encode() in TEXTS[token] for text in texts if text)]
    return {token: multiplier * base ** (n - allowed) for token, n in longest.items() if token not in whole}


@EVERY_TIME
@given(
    st.lists(st.integers(0, 6), max_size=40),
    st.lists(st.sampled_from(["\n", "ab", "bx", "\n\n", "c\n\n", "zz", ""]), max_size=3),
    st.integers(0, 4),
)
def test_against_the_slow_twin(window: list[int], texts: list[str], allowed: int) -> None:
    found = dry(all_tokens(row(*[0.0] * 8)), np.array(window, dtype=np.int32), breakers(*texts), 0.8, 1.5, allowed)
    expected = slow_penalties(window, texts, 0.8, 1.5, allowed)
    for token in range(8):
        # f32 numbers up to 0.8 * 1.5^40
        assert -found.logits[token] == pytest.approx(expected.get(token, 0.0), rel=1e-6)


def test_the_longest_repetition_counts() -> None:
    window = np.array([0, 1, 2, 0, 1, 4, 1, 2, 0, 1])
    found = dry(all_tokens(row(*[0.0] * 8)), window, breakers(), 1.0, 2.0, 2)
    # after "0 1" came 2 (length 2) and 4 (length 4: "1 2 0 1")
    assert (-found.logits).tolist() == [0, 0, 1, 0, 4, 0, 0, 0]


@pytest.mark.parametrize(
    ("window", "texts", "n"),
    [
        ([0, 3, 1, 2], ["\n"], 2),
        ([0, 5, 1, 2], ["\n"], 2),  # inside of "x\n"
        ([0, 1, 2, 2], ["ab"], 2),  # over two tokens
        ([0, 1, 4, 2], ["ab"], 1),
        ([2, 3, 3], ["\n\n"], 0),
        ([0, 6, 3], ["\n\n"], 0),  # begins at the end of "c\n\n" as well
        ([0, 7, 1, 2], ["ab"], 1),  # a token without text in between
        ([0, 1, 2], ["zz"], 3),
        ([0, 1, 2], [], 3),
        ([0], ["ab"], 1),  # not complete yet
    ],
)
def test_tokens_since_the_last_breaker(window: list[int], texts: list[str], n: int) -> None:
    assert breakers(*texts).n_since(np.array(window), len(window)) == n


def test_far_breakers_are_not_looked_for() -> None:
    asked: list[int] = []

    def token_text(token: int) -> bytes:
        asked.append(token)
        return b"."

    assert Breakers(["\n"], token_text).n_since(np.arange(1000), 50) == 50
    assert len(asked) == 50


def test_each_text_is_asked_once() -> None:
    asked: list[int] = []

    def token_text(token: int) -> bytes:
        asked.append(token)
        return b"."

    seen = Breakers(["\n"], token_text)
    for _ in range(3):
        seen.n_since(np.array([5, 6, 5]), 3)
    assert sorted(asked) == [5, 6]


def test_a_token_with_a_breaker_in_it_is_never_penalised() -> None:
    window = np.array([0, 1, 5, 0, 1])
    with_breaker = dry(all_tokens(row(*[0.0] * 8)), window, breakers("\n"), 1.0, 2.0, 2)
    without = dry(all_tokens(row(*[0.0] * 8)), window, breakers(), 1.0, 2.0, 2)
    assert with_breaker.logits[5] == 0 and without.logits[5] == -1


def test_endless_repetition_stays_finite_and_quick() -> None:
    """8,192 equal tokens: only as many are compared as can still change an f32 penalty."""
    window = np.zeros(8192, dtype=np.int32)
    found = dry(all_tokens(row(0, 0)), window, breakers(), 1e6, 1.75, 2)
    assert np.isfinite(found.logits).all() and found.logits[0] < -1e37 and found.logits[1] == 0


@pytest.mark.parametrize(("base", "penalty"), [(1.0, 0.5), (1.0000001, 0.5)])
def test_a_base_of_one_is_a_constant(base: float, penalty: float) -> None:
    found = dry(all_tokens(row(0, 0)), np.zeros(300, dtype=np.int32), breakers(), 0.5, base, 2)
    assert found.logits[0] == pytest.approx(-penalty, rel=1e-4)


def test_off() -> None:
    start = all_tokens(row(0, 0))
    assert dry(start, np.zeros(9, dtype=np.int32), breakers(), 0.0, 1.75, 2) is start
    assert dry(start, np.zeros(2, dtype=np.int32), breakers(), 1.0, 1.75, 2) is start
