import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logit_rows import EVERY_TIME, ROWS, normal_row, row

from chenxing.sampling.candidates import Candidates, all_tokens, probabilities
from chenxing.sampling.truncation import min_p, top_k, top_n_sigma, top_p, top_p_then_min_p

SHARES = st.floats(0, 1)


def is_sorted(candidates: Candidates) -> bool:
    keys = [(-logit, id) for logit, id in zip(candidates.logits.tolist(), candidates.ids.tolist(), strict=True)]
    return keys == sorted(keys)


@EVERY_TIME
@given(ROWS, st.integers(1, 70))
def test_top_k_keeps_the_k_likeliest(logits: np.ndarray, k: int) -> None:
    left = top_k(all_tokens(logits), k)
    assert left.ids.size == min(k, logits.size) and left.sorted and is_sorted(left)
    dropped = np.delete(logits, left.ids)
    assert dropped.size == 0 or dropped.max() <= left.logits.min()


@pytest.mark.parametrize("k", [0, -1])
def test_top_k_of_none_is_off(k: int) -> None:
    start = all_tokens(row(1, 2))
    assert top_k(start, k) is start


@EVERY_TIME
@given(ROWS, SHARES, st.integers(0, 5))
def test_top_p_keeps_the_fewest_that_reach_p(logits: np.ndarray, p: float, min_keep: int) -> None:
    left = top_p(all_tokens(logits), p, min_keep)
    shares = probabilities(logits)
    if p == 1:
        assert left.ids.size == logits.size
        return
    assert is_sorted(left)
    assert shares[left.ids].sum() >= p - 2e-6
    assert left.ids.size <= max(1, min_keep) or shares[left.ids[:-1]].sum() < p + 1e-7
    assert left.ids.size >= min(min_keep, logits.size)


def test_top_p_reaches_its_bound_in_spite_of_rounding() -> None:
    logits = np.log(np.array([0.1, 0.2, 0.3, 0.4], dtype=np.float32))
    assert top_p(all_tokens(logits), 0.7).ids.tolist() == [3, 2]
    assert top_p(all_tokens(logits), 0.7001).ids.tolist() == [3, 2, 1]


def test_top_p_of_a_long_flat_row() -> None:
    left = top_p(all_tokens(np.zeros(20_000, dtype=np.float32)), 0.25)
    assert left.ids.tolist() == list(range(5000))


@EVERY_TIME
@given(ROWS, SHARES, st.integers(0, 5))
def test_min_p_keeps_what_has_p_of_the_largest(logits: np.ndarray, p: float, min_keep: int) -> None:
    left = min_p(all_tokens(logits), p, min_keep)
    ratios = np.exp(logits.astype(np.float64) - float(logits.max()))
    kept = np.isin(np.arange(logits.size), left.ids)
    assert kept[ratios > p * (1 + 1e-5)].all()  # f32 logits up to 30: differences are good to 4e-6
    if kept.sum() > max(min_keep, 1):
        assert not kept[ratios < p * (1 - 1e-5)].any()
    assert kept.sum() >= min(min_keep, logits.size)


@EVERY_TIME
@given(ROWS, SHARES, st.integers(1, 30), SHARES)
def test_truncations_of_a_sorted_row_leave_the_same(logits: np.ndarray, p: float, k: int, share: float) -> None:
    whole, in_order = all_tokens(logits), top_k(all_tokens(logits), logits.size)
    assert set(top_k(whole, k).ids) == set(top_k(in_order, k).ids)
    assert set(top_p(whole, p).ids) == set(top_p(in_order, p).ids)
    assert set(min_p(whole, share).ids) == set(min_p(in_order, share).ids)


@EVERY_TIME
@given(ROWS, st.integers(1, 30), st.integers(1, 30), SHARES, SHARES)
def test_like_truncations_need_no_order(logits: np.ndarray, k: int, l: int, p: float, q: float) -> None:  # noqa: E741
    """Two of a kind, and top_k with min_p, may be swapped; top_p may not, since it counts shares of what is left."""
    start = all_tokens(logits)
    assert top_k(top_k(start, k), l).ids.tolist() == top_k(top_k(start, l), k).ids.tolist()
    assert min_p(min_p(start, p), q).ids.tolist() == min_p(min_p(start, q), p).ids.tolist()
    assert set(min_p(top_k(start, k), p).ids) == set(top_k(min_p(start, p), k).ids)


@EVERY_TIME
@given(ROWS, st.floats(0.1, 3))
def test_top_n_sigma_bans_below_its_bound(logits: np.ndarray, n: float) -> None:
    left = top_n_sigma(all_tokens(logits), n)
    finite = logits[np.isfinite(logits)].astype(np.float64)
    bound = finite.max() - n * finite.std()
    assert left.ids.size == logits.size
    kept = left.logits > -np.inf
    assert kept[logits > bound + 1e-4].all() and not kept[logits < bound - 1e-4].any()  # sums in f32
    assert (left.logits[kept] == logits[kept]).all()


@pytest.mark.parametrize("step", [lambda c: top_k(c, 3), lambda c: top_p(c, 0.5), lambda c: min_p(c, 0.2)])
def test_the_row_itself_stays_as_it_is(step) -> None:
    logits = normal_row(5000, seed=3)
    before = logits.copy()
    step(all_tokens(logits))
    top_n_sigma(all_tokens(logits), 1.0)
    assert (logits == before).all()


@EVERY_TIME
@given(ROWS, st.floats(0, 1, exclude_max=True), st.floats(0.001, 0.999), st.integers(0, 30))
def test_top_p_then_min_p_is_one_after_the_other(logits: np.ndarray, p: float, share: float, k: int) -> None:
    start = top_k(all_tokens(logits), k)
    one, other = top_p_then_min_p(start, p, share), min_p(top_p(start, p), share)
    assert one.ids.tolist() == other.ids.tolist() and one.sorted
    assert one.logits.tolist() == other.logits.tolist()


def test_top_p_then_min_p_of_a_long_row() -> None:
    for spread in (0.1, 1.0, 4.0):
        start = all_tokens(normal_row(20_000, seed=1, spread=spread))
        assert top_p_then_min_p(start, 0.9, 0.05).ids.tolist() == min_p(top_p(start, 0.9), 0.05).ids.tolist()
