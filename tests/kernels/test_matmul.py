"""The driver around every format's tile: which rows, tiles and experts a chunk computes, and what becomes of the sums.

The format is Q8_0; tests/quants has the others. Results are compared in every bit.
"""

from fractions import Fraction

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from reference import naive
from reference.native import RUNNABLE, Linear, call, kernels, q8_rows

from chenxing.kernels import layout as L
from chenxing.kernels import matmul
from chenxing.kernels.memory import address, aligned
from chenxing.models.packing import pack_matrix
from chenxing.quants import QUANTS

LINEAR, EXPERTS, GROUPED = (
    f"chenxing.quants.kernels:{kernel}(Q8_0)" for kernel in ("linear", "expert_linear", "grouped_linear")
)
K, ROWS = 96, 80
N_TILES, PER_CHUNK = ROWS // 16, 2


@pytest.fixture(params=RUNNABLE)
def addresses(request: pytest.FixtureRequest) -> dict[str, int]:
    return kernels(request.param, [LINEAR, EXPERTS, GROUPED])


def weights(rows: int = ROWS, seed: int = 0) -> np.ndarray:
    """u8[rows, 3, 34] file blocks"""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (rows, K // 32, 34), dtype=np.uint8)
    naive.set_f16(blocks, 0, rng.uniform(-0.02, 0.02, blocks.shape[:2]))
    return blocks


class Rows:
    def __init__(self, n: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.q = rng.integers(-127, 128, (n, K), dtype=np.int8)
        self.d = rng.uniform(1e-3, 0.1, (n, K // 32)).astype(np.float32)
        self.data = q8_rows(self.q, self.d)

    def times(self, blocks: np.ndarray) -> np.ndarray:
        return naive.linear_quantised(Type.Q8_0, blocks, self.q, self.d)


def output(n: int) -> np.ndarray:
    return np.random.default_rng(4).standard_normal((n, ROWS)).astype(np.float32)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.array_equal(a.view(np.int32), b.view(np.int32))


@pytest.mark.parametrize("n", [1, 2, 4, 5, 31, 32, 33, 67])
def test_any_number_of_rows(addresses: dict[str, int], n: int) -> None:
    """Below and above the rows that share a register, and those that share the cache."""
    blocks, x, y = weights(), Rows(n), output(n)
    Linear(y).run(addresses[LINEAR], pack_matrix(QUANTS["Q8_0"], blocks), x.data)
    assert same_bits(y, naive.finish(x.times(blocks)))


@pytest.mark.parametrize("per_chunk", [1, 2, 3, 5, 9])
def test_chunks_cover_the_tiles_once(addresses: dict[str, int], per_chunk: int) -> None:
    """Every chunk writes its own tiles and no other; added results would show a tile that was computed twice."""
    blocks, x = weights(), Rows(3)
    packed, expected = pack_matrix(QUANTS["Q8_0"], blocks), naive.finish(x.times(blocks))
    n_chunks = -(-N_TILES // per_chunk)
    for chunk in range(n_chunks):
        y = np.full((3, ROWS), np.nan, np.float32)
        Linear(y, per_chunk).run(addresses[LINEAR], packed, x.data, chunks=[chunk])
        columns = slice(16 * per_chunk * chunk, 16 * per_chunk * (chunk + 1))
        assert same_bits(y[:, columns], expected[:, columns])
        assert np.isfinite(y).sum() == y[:, columns].size
    y = output(3)
    Linear(y, per_chunk, add=True).run(addresses[LINEAR], packed, x.data, chunks=reversed(range(n_chunks)))
    assert same_bits(y, naive.finish(x.times(blocks), y=output(3)))


@pytest.mark.parametrize("scale", [1.0, -0.37])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("add", [False, True])
def test_bias_scale_and_addition(addresses: dict[str, int], add: bool, with_bias: bool, scale: float) -> None:
    """(values + bias) * scale + y with one rounding after each of the two steps, in this order."""
    blocks, x, y = weights(), Rows(6), output(6)
    bias = np.random.default_rng(5).standard_normal(ROWS).astype(np.float32) if with_bias else None
    Linear(y, add=add, scale=scale, bias=bias).run(addresses[LINEAR], pack_matrix(QUANTS["Q8_0"], blocks), x.data)
    before = output(6) if add else -0.0
    assert same_bits(y, naive.finish(x.times(blocks), scale, 0.0 if bias is None else bias, before))


@pytest.mark.parametrize("n", [L.EACH_ROWS, L.EACH_ROWS + 1])
def test_threads_read_their_own_rows_in_small_steps(addresses: dict[str, int], n: int) -> None:
    blocks, y = weights(), output(n)
    shares = [Rows(n, seed=tid) for tid in range(3)]
    x = aligned((3, *shares[0].data.shape))
    x[:] = [share.data for share in shares]
    packed = pack_matrix(QUANTS["Q8_0"], blocks)
    Linear(y, each=x.strides[0]).run(addresses[LINEAR], packed, x[0], tid=2)
    meant = shares[2] if n <= L.EACH_ROWS else shares[0]
    assert same_bits(y, naive.finish(meant.times(blocks)))


class Experts:
    """Four experts, and the arguments that their two kernels share."""

    def __init__(self) -> None:
        self.blocks = [weights(seed=seed) for seed in range(4)]
        self.packed = np.stack([pack_matrix(QUANTS["Q8_0"], blocks) for blocks in self.blocks])
        self.n_chunks = -(-N_TILES // PER_CHUNK)  # of one expert or pair

    def args(self, x: np.ndarray, y: np.ndarray, more: dict[int, int]) -> list[int]:
        """x u8[n_threads, n, bytes]"""
        slots = {
            matmul.W: address(self.packed),
            matmul.X: address(x),
            matmul.X_ROW: x.strides[1],
            matmul.X_EACH: x.strides[0],
            matmul.N_BLOCKS: K // 32,
            matmul.N_TILES: N_TILES,
            matmul.PER_CHUNK: PER_CHUNK,
            matmul.Y: address(y),
            matmul.Y_ROW: y.strides[0],
            matmul.EXPERT_BYTES: self.packed.strides[0],
            **more,
        }
        return [slots.get(slot, 0) for slot in range(0, max(slots) + 8, 8)]


@pytest.mark.parametrize("sharing", [1, 2])
@pytest.mark.parametrize("n", [1, L.EACH_ROWS])
def test_experts(addresses: dict[str, int], n: int, sharing: int) -> None:
    """Two of four experts a row; the activations are the thread's own of the row, or of each slot."""
    experts, n_used = Experts(), 2
    chosen = np.array([np.random.default_rng(r).permutation(4)[:n_used] for r in range(n)], np.int64)
    shares = [Rows(n * n_used // sharing, seed=tid) for tid in range(2)]
    x = aligned((2, *shares[0].data.shape))
    x[:] = [share.data for share in shares]
    y = output(n * n_used)
    args = experts.args(x, y, {matmul.CHOSEN: address(chosen), matmul.SHARING: sharing})
    for chunk in range(n * n_used * experts.n_chunks):
        call(addresses[EXPERTS], args, chunk, tid=1)
    products = [shares[1].times(blocks) for blocks in experts.blocks]
    for pair, expert in enumerate(chosen.reshape(-1)):
        assert same_bits(y[pair], naive.finish(products[expert][pair // sharing]))


@pytest.mark.parametrize(
    "counts",
    [(2, 0, 3, 1), (0, 0, 67, 0), (9, 7, 8, 0), (0, 63, 64, 65), (1, 4, 5, 128)],
    ids=lambda counts: "-".join(map(str, counts)),
)
def test_rows_sorted_by_expert(addresses: dict[str, int], counts: tuple[int, ...]) -> None:
    """Below, at and above the rows that share a register, an unpacked block and the cache; experts without any.

    Rows that follow an expert's own are another's or, after the last, spare ones of nonsense.
    """
    experts, n = Experts(), sum(counts)
    starts = np.array([0, *np.cumsum(counts)], np.int64)
    rows = Rows(n)
    x = np.full((1, n + L.SPARE_ROWS, rows.data.shape[1]), 0xFF, np.uint8)
    x[0, :n] = rows.data
    expected = np.concatenate(
        [rows.times(blocks)[starts[e] : starts[e + 1]] for e, blocks in enumerate(experts.blocks)]
    )
    y = output(n + 1)
    args = experts.args(x, y, {matmul.STARTS: address(starts)})
    for e in reversed(range(len(counts))):
        for chunk in range(experts.n_chunks):
            call(addresses[GROUPED], args, e * experts.n_chunks + chunk, tid=1)
        rest = np.r_[0 : starts[e], n]
        assert same_bits(y[starts[e] : n], naive.finish(expected[starts[e] :]))
        assert same_bits(y[rest], output(n + 1)[rest])


def test_the_twins_fma_rounds_once() -> None:
    """Against exact fractions, where two roundings differ most: nearly cancelling and far smaller addends, ties."""
    rng = np.random.default_rng(6)
    x, y = (np.ldexp(rng.standard_normal(2000), rng.integers(-20, 20, 2000)).astype(np.float32) for _ in range(2))
    acc = -(x * y) * rng.choice(np.array([1, 1 + 2**-23, 2**-24, 2**-30, 2**24, 3e8], np.float32), 2000)
    for a, b, c, got in zip(x, y, acc, naive.fma(acc, x, y), strict=True):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        error = abs(Fraction(float(got)) - exact)
        for towards in (-np.inf, np.inf):
            other = abs(Fraction(float(np.nextafter(got, np.float32(towards)))) - exact)
            assert error < other or (error == other and got.view(np.int32) & 1 == 0), (a, b, c)
