"""Mixtures of experts around their products: choices, where the rows of pairs are, and the weighted sum over them."""

import numpy as np
import pytest
from reference import naive

from chenxing.kernels import layout as L
from chenxing.kernels.memory import aligned

KERNELS = "chenxing.kernels.experts"
N_EXPERT, N_USED = 20, 3


def choices(n_rows: int, n_expert: int = N_EXPERT) -> np.ndarray:
    """i64[n_rows, N_USED], different ones in a row."""
    rng = np.random.default_rng(n_rows)
    return np.array([rng.permutation(n_expert)[:N_USED] for _ in range(n_rows)], np.int64)


def counters(n_rows: int) -> np.ndarray:
    step = aligned(L.STEP_WORDS, np.int64)
    step[L.N_ROWS] = n_rows
    return step


def test_route(compiler, isa):
    """The best by score, the lower index first among equals; every pair's place is its own number."""
    n_rows = 5
    scores = aligned((n_rows, 32), np.float32)
    scores[:, :N_EXPERT] = np.random.default_rng(0).standard_normal((n_rows, N_EXPERT))
    scores[1, :N_EXPERT] = scores[1, 0]
    scores[:, N_EXPERT:] = np.nan  # what follows a row's scores counts for nothing
    chosen, places = (np.full((n_rows, N_USED), -1, np.int64) for _ in range(2))
    shares, scratch = np.zeros((n_rows, N_USED), np.float32), aligned(32, np.float32)
    args = [scores, scores.strides[0], N_EXPERT, N_USED, chosen, shares, places, scratch, 0]
    compiler.call(f"{KERNELS}:route", isa, *args, n_chunks=n_rows)
    best = np.argsort(-scores[:, :N_EXPERT], axis=1, kind="stable")[:, :N_USED]
    assert np.array_equal(chosen, best)
    assert np.array_equal(places.reshape(-1), np.arange(n_rows * N_USED))
    weights = np.exp(np.take_along_axis(scores, best, axis=1).astype(np.float64))
    # five roundings of 2^-24 and two exp of 1 ulp
    assert np.allclose(shares, weights / weights.sum(axis=1, keepdims=True), rtol=1e-6, atol=0)


@pytest.mark.parametrize("n_expert", [N_USED, N_EXPERT, 500])
def test_pairs_are_sorted_by_expert_and_keep_their_order(compiler, isa, n_expert):
    """Also a second time, over what an earlier and larger step has left."""
    starts, places = np.full(n_expert + 2, -1, np.int64), np.full((40, N_USED), -1, np.int64)
    for n_rows in (40, 7):
        chosen = choices(n_rows, n_expert)
        compiler.call(f"{KERNELS}:group", isa, chosen, places, starts, n_expert, N_USED, counters(n_rows))
        order = np.argsort(chosen.reshape(-1), kind="stable")  # of pairs, by place
        assert np.array_equal(places.reshape(-1)[order], np.arange(n_rows * N_USED))
        assert np.array_equal(np.diff(starts[:-1]), np.bincount(chosen.reshape(-1), minlength=n_expert))
        assert starts[0] == 0


def test_rows_are_copied_to_their_pairs_places(compiler, isa):
    n_rows, n_bytes = 6, 144
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (n_rows, n_bytes), dtype=np.uint8)
    places = rng.permutation(n_rows * N_USED)
    to = np.full((n_rows * N_USED + 1, n_bytes), 7, np.uint8)
    compiler.call(f"{KERNELS}:spread", isa, x, n_bytes, to, places, N_USED, n_chunks=n_rows)
    assert np.array_equal(to[places], np.repeat(x, N_USED, axis=0))
    assert (to[-1] == 7).all()


def test_outputs_are_added_in_the_order_of_slots(compiler, isa):
    """To the last bit, wherever the pairs' rows are."""
    n_rows, n = 6, 32
    rng = np.random.default_rng(2)
    out = rng.standard_normal((n_rows * N_USED, n)).astype(np.float32)
    shares = rng.uniform(0, 1, (n_rows, N_USED)).astype(np.float32)
    places = rng.permutation(n_rows * N_USED).reshape(n_rows, N_USED)
    x = rng.standard_normal((n_rows, n)).astype(np.float32)
    total = np.zeros_like(x)
    for k in range(N_USED):
        total = naive.fma(total, out[places[:, k]], np.broadcast_to(shares[:, k, None], x.shape))
    expected = x + total
    args = [out, out.strides[0], n, N_USED, shares, places, x, x.strides[0]]
    compiler.call(f"{KERNELS}:combine", isa, *args, n_chunks=n_rows)
    assert x.tobytes() == expected.tobytes()
