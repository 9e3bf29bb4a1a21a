import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logit_rows import EVERY_TIME, ROWS, candidates_of

from chenxing.sampling.candidates import all_tokens, probabilities
from chenxing.sampling.truncation import top_k
from chenxing.sampling.xtc import xtc


@EVERY_TIME
@given(ROWS, st.floats(0.01, 0.5))
def test_of_the_likely_tokens_one_stays(logits: np.ndarray, threshold: float) -> None:
    start = all_tokens(logits)
    left = xtc(start, 1.0, threshold, uniform=0.0)
    shares = probabilities(logits)
    likely = shares >= threshold * (1 - 1e-6)
    kept = np.isin(start.ids, left.ids)
    assert kept[~likely].all()
    assert kept[likely].sum() == min(1, likely.sum())
    assert not kept[likely].any() or shares[likely & kept].max() == shares[likely].min()


@EVERY_TIME
@given(ROWS, st.floats(0.01, 0.5))
def test_the_order_does_not_matter(logits: np.ndarray, threshold: float) -> None:
    in_order = top_k(all_tokens(logits), logits.size)
    found = xtc(in_order, 1.0, threshold, 0.0)
    assert set(found.ids) == set(xtc(all_tokens(logits), 1.0, threshold, 0.0).ids) and found.sorted


@pytest.mark.parametrize(
    ("probability", "threshold", "uniform", "n_left"),
    [
        (0.3, 0.15, 0.31, 4),  # not this time
        (0.3, 0.15, 0.3, 2),
        (0.0, 0.15, 0.0, 4),  # off
        (1.0, 0.51, 0.0, 4),  # off
    ],
)
def test_when_it_acts(probability: float, threshold: float, uniform: float, n_left: int) -> None:
    assert xtc(candidates_of([0.4, 0.3, 0.2, 0.1]), probability, threshold, uniform).ids.size == n_left


@pytest.mark.parametrize(("min_keep", "n_left"), [(2, 2), (3, 4)])
def test_with_fewer_than_min_keep_left_nothing_goes(min_keep: int, n_left: int) -> None:
    assert xtc(candidates_of([0.4, 0.3, 0.2, 0.1]), 1.0, 0.15, 0.0, min_keep).ids.size == n_left
