import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logit_rows import EVERY_TIME, normal_row, row

from chenxing.sampling.adjust import logit_bias, penalties
from chenxing.sampling.candidates import all_tokens
from chenxing.sampling.truncation import top_k


def test_biases_are_added() -> None:
    logits = row(1, 2, 3)
    found = logit_bias(all_tokens(logits), np.array([2, 0]), row(-math.inf, 0.5))
    assert found.logits.tolist() == [1.5, 2, -math.inf] and logits.tolist() == [1, 2, 3]


def test_no_bias_copies_nothing() -> None:
    start = all_tokens(row(1, 2))
    assert logit_bias(start, np.array([], dtype=np.int64), row()) is start


@EVERY_TIME
@given(
    st.lists(st.integers(0, 19), max_size=30),
    st.floats(0.5, 2),
    st.floats(-2, 2),
    st.floats(-2, 2),
    st.integers(0, 20),
)
def test_penalties_token_by_token(window: list[int], repeat: float, frequency: float, presence: float, k: int) -> None:
    """On the whole vocabulary (k = 0) and on what top_k left."""
    start = top_k(all_tokens(normal_row(20, seed=4)), k)
    found = penalties(start, np.array(window, dtype=np.int32), repeat, frequency, presence)
    counts = Counter(window)
    for id, old, new in zip(start.ids.tolist(), start.logits.tolist(), found.logits.tolist(), strict=True):
        expected = old
        if id in counts:
            expected = old / repeat if old > 0 else old * repeat
            expected -= counts[id] * frequency + presence
        assert new == pytest.approx(expected, abs=1e-5)  # f32 numbers up to 70
    assert found.ids is start.ids


def test_adjusted_logits_are_not_sorted() -> None:
    start = top_k(all_tokens(row(3, 2, 1)), 2)
    assert not penalties(start, np.array([0]), 1.0, 5.0, 0.0).sorted
    assert not logit_bias(start, np.array([0]), row(-5)).sorted


@pytest.mark.parametrize(("window", "strength"), [([], (2.0, 1.0, 1.0)), ([0], (1.0, 0.0, 0.0))])
def test_without_history_or_strength_nothing_is_copied(window: list[int], strength: tuple[float, float, float]) -> None:
    start = all_tokens(row(1, 2))
    assert penalties(start, np.array(window, dtype=np.int32), *strength) is start
