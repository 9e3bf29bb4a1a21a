import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logit_rows import EVERY_TIME, ROWS, normal_row, row

from chenxing.sampling.candidates import (
    Candidates,
    all_tokens,
    descending,
    largest,
    pick,
    positions,
    probabilities,
    shortest_prefix,
)


def sorted_positions(values: np.ndarray) -> list[int]:
    return sorted(range(values.size), key=lambda i: (-values[i], i))


@EVERY_TIME
@given(ROWS, st.integers(1, 70))
def test_largest_is_a_stable_sort(values: np.ndarray, k: int) -> None:
    assert largest(values, k).tolist() == sorted_positions(values)[:k]


@EVERY_TIME
@given(ROWS)
def test_descending_is_a_stable_sort(values: np.ndarray) -> None:
    assert descending(values).tolist() == sorted_positions(values)


def test_descending_takes_zeros_of_both_signs_for_equal() -> None:
    assert descending(row(-0.0, 0.0, -0.0, 1e-45, -1e-45, -np.inf, np.inf)).tolist() == [6, 3, 0, 1, 2, 4, 5]


@pytest.mark.parametrize("n_vocab", [4095, 4097, 50_000])
@pytest.mark.parametrize("k", [1, 40, 600, 5000])
@pytest.mark.parametrize("kind", ["distinct", "ties", "mostly banned", "ascending", "one column"])
def test_largest_of_long_rows(n_vocab: int, k: int, kind: str) -> None:
    values = normal_row(n_vocab, seed=n_vocab + k)
    if kind == "ties":
        values = np.round(values)
    elif kind == "mostly banned":
        values[np.random.default_rng(0).random(n_vocab) < 0.999] = -np.inf
    elif kind == "ascending":
        values.sort()
    elif kind == "one column":
        values[::1024] += 100  # all large values in one column of the search for a bound
    assert largest(values, k).tolist() == sorted_positions(values)[:k]


def test_all_tokens_share_the_row_and_nothing_can_be_written_to_their_ids() -> None:
    logits = row(1, 2, 3)
    candidates = all_tokens(logits)
    assert candidates.logits is logits and not candidates.sorted
    with pytest.raises(ValueError, match="read-only"):
        candidates.ids[0] = 5


def test_the_likeliest_is_the_first_of_equal_ones() -> None:
    assert all_tokens(row(1, 3, 3, 2)).likeliest().ids.tolist() == [1]


@EVERY_TIME
@given(ROWS)
def test_probabilities_sum_to_one(logits: np.ndarray) -> None:
    found = probabilities(logits)
    assert abs(found.sum(dtype=np.float64) - 1) < 1e-6  # 30 f32 numbers, each off by 6e-8 at most
    assert ((found == 0) | (logits > -np.inf)).all()


@EVERY_TIME
@given(ROWS, st.floats(0, 1), st.integers(0, 10))
def test_the_shortest_prefix_is_shortest(values: np.ndarray, mass: float, n_least: int) -> None:
    shares = probabilities(values)
    found = shortest_prefix(values, shares, mass, n_least)
    assert found.tolist() == sorted_positions(values)[: found.size]
    assert found.size == values.size or shares[found].sum(dtype=np.float64) >= mass
    assert found.size <= max(n_least, 1) or shares[found[:-1]].sum(dtype=np.float64) < mass


def test_the_shortest_prefix_of_a_flat_row_looks_further() -> None:
    values = np.arange(3000, 0, -1, dtype=np.float32)
    shares = np.full(3000, 1 / 3000, dtype=np.float32)
    assert shortest_prefix(values, shares, 2500.5 / 3000, 0).tolist() == list(range(2501))


@pytest.mark.parametrize(
    ("ids", "tokens", "where", "held"),
    [
        ([0, 1, 2, 3], [1, 3], [1, 3], [1, 3]),
        ([7, 3, 9], [3, 5, 7], [1, 0], [3, 7]),
        ([7, 3, 9], [], [], []),
        ([7, 3, 9], [1, 2], [], []),
        ([1, 0], [0, 1], [1, 0], [0, 1]),
    ],
)
def test_positions(ids: list[int], tokens: list[int], where: list[int], held: list[int]) -> None:
    candidates = Candidates(np.array(ids, dtype=np.int32), np.zeros(len(ids), dtype=np.float32))
    found, which = positions(candidates, np.array(tokens, dtype=np.int64))
    assert found.tolist() == where and np.array(tokens)[which].tolist() == held


@EVERY_TIME
@given(ROWS, st.floats(0, 1, exclude_max=True))
def test_pick_inverts_the_running_sum(logits: np.ndarray, uniform: float) -> None:
    shares = np.exp(logits - logits.max()).astype(np.float64)
    at = pick(shares.astype(np.float32), uniform)
    running = np.cumsum(shares) / shares.sum()
    assert shares[at] > 0
    assert running[at] >= uniform - 1e-7 and (running[at - 1] if at else 0.0) <= uniform + 1e-7  # f32 shares


def test_pick_in_blocks_equals_pick_in_one_go() -> None:
    # multiples of 1/1024 that add up to less than 2^24 of them: all sums are exact in f32
    shares = np.random.default_rng(1).integers(0, 20, 10_007).astype(np.float32) / 1024
    running = np.cumsum(shares, dtype=np.float64)
    for uniform in np.random.default_rng(2).random(300):
        assert pick(shares, uniform) == np.searchsorted(running, uniform * running[-1], side="right")


@pytest.mark.parametrize("n", [8, 10_000])
def test_pick_never_takes_what_has_no_share(n: int) -> None:
    shares = np.zeros(n, dtype=np.float32)
    shares[[2, n - 3]] = 0.1, 0.3
    largest_uniform = 1 - 2**-53
    assert [pick(shares, u) for u in (0.0, 0.2, 0.26, largest_uniform)] == [2, 2, n - 3, n - 3]
