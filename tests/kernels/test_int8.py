"""LLM.int8(): rows are quantised as the twin does, products have its bits, and the paper's bounds hold."""

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from reference import naive
from reference.emulation import EMULATED
from reference.emulation import compiled as compiled_here
from reference.native import RUNNABLE, Linear, call, kernels

from chenxing.kernels import layout as L
from chenxing.kernels.int8 import THRESHOLD
from chenxing.kernels.memory import address, aligned
from chenxing.kernels.rows import DST, DST_ROW, SRC, SRC_ROW, STEP, N
from chenxing.models.packing import pack_matrix
from chenxing.quants import INT8
from chenxing.quants.int8 import pack_columns, point_to_columns

ROWS_KERNEL = "chenxing.kernels.rows:convert(int8)"
LINEAR = {name: f"chenxing.quants.kernels:linear({name}_INT8)" for name in INT8}


@pytest.fixture(params=RUNNABLE)
def addresses(request: pytest.FixtureRequest) -> dict[str, int]:
    return kernels(request.param, [ROWS_KERNEL, *LINEAR.values()])


def weights(n_out: int, k: int, name: str = "F16", seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The file's blocks u8[n_out, k, type_size], and what they mean as f32[n_out, k]."""
    values = np.random.default_rng(seed).standard_normal((n_out, k)).astype(np.float32) * 0.05
    data = gguf.quants.quantize(values, Type[name])
    meant = gguf.quants.dequantize(data, Type[name]).reshape(n_out, k)
    return data.view(np.uint8).reshape(n_out, k, -1), meant


def activations(n: int, k: int, seed: int = 1) -> np.ndarray:
    """Usual values below the threshold, and a few columns with outliers in some rows."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, k)).astype(np.float32).clip(-5.9, 5.9)
    x[::2, 5] = rng.uniform(6, 60, len(x[::2]))
    x[1::3, k - 1] = -8.0
    return x


def quantised(kernel: int, x: np.ndarray) -> np.ndarray:
    """u8[n, bytes], followed by spare rows of nonsense."""
    n, k = x.shape
    out = aligned((n + L.SPARE_ROWS, L.INT8_QUANTS + k + k * L.INT8_OUTLIER))
    out[:] = 0x7F
    step = np.array([1, L.EACH_ROWS + 1, 0, 0, 0, 0, 0, 0], np.int64)
    slots = {SRC: address(x), SRC_ROW: x.strides[0], N: k, DST: address(out), DST_ROW: out.strides[0]}
    slots[STEP] = address(step)
    args = [slots.get(slot, 0) for slot in range(0, 104, 8)]
    for row in range(n):
        call(kernel, args, row)
    return out[:n]


def fields(row: np.ndarray, k: int) -> tuple[float, int, np.ndarray, dict[int, float]]:
    """Scale, sum, quants and outliers of a row of bytes."""
    d, total = row[:4].view(np.float32)[0], row[4:8].view(np.int32)[0]
    n = row[8:16].view(np.int64)[0]
    entries = row[L.INT8_QUANTS + k :][: n * L.INT8_OUTLIER].reshape(n, L.INT8_OUTLIER)
    columns, values = entries[:, :4].copy().view(np.int32)[:, 0], entries[:, 4:].copy().view(np.float32)[:, 0]
    assert np.all(np.diff(columns) > 0), "outliers are not in ascending order"
    quants = row[L.INT8_QUANTS : L.INT8_QUANTS + k].view(np.int8)
    return d, total, quants, dict(zip(columns.tolist(), values.tolist(), strict=True))


def product(addresses: dict[str, int], blocks: np.ndarray, x: np.ndarray, name: str = "F16") -> np.ndarray:
    tiles = pack_matrix(INT8[name], blocks)
    point_to_columns(INT8[name], tiles, 0, len(tiles))
    packed = np.concatenate([tiles.reshape(-1), pack_columns(blocks).reshape(-1)])
    y = np.full((len(x), 16 * len(tiles)), np.nan, np.float32)
    Linear(y).run_flat(addresses[LINEAR[name]], packed, x.shape[1], quantised(addresses[ROWS_KERNEL], x))
    return y[:, : len(blocks)]


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.array_equal(a.view(np.int32), b.view(np.int32))


def test_rows_are_quantised_around_their_outliers(addresses: dict[str, int]) -> None:
    x = activations(7, 64)
    x[0, 6:10] = [6.0, np.nextafter(np.float32(6), np.float32(0)), -6.0, np.inf]
    x[3] = 0.0
    x[4] = 7.0
    for row, values in zip(quantised(addresses[ROWS_KERNEL], x), x, strict=True):
        d, total, quants, outliers = fields(row, 64)
        is_outlier = np.abs(values) >= THRESHOLD
        assert outliers == {int(k): float(values[k]) for k in np.flatnonzero(is_outlier)}
        usual = np.where(is_outlier, 0, values)
        assert d == np.abs(usual).max() / np.float32(127) and total == quants.sum(dtype=int)
        assert np.all(quants[is_outlier] == 0)
        # the paper's bound: half a step of 2 absmax / 254
        assert np.abs(usual - d * quants.astype(float)).max() <= np.abs(usual).max() / 254 * (1 + 1e-5)


def test_what_is_not_a_number_is_not_hidden(addresses: dict[str, int]) -> None:
    x = activations(2, 32)
    x[1, 3] = np.nan
    assert 3 in fields(quantised(addresses[ROWS_KERNEL], x)[1], 32)[3]
    y = product(addresses, weights(16, 32)[0], x)
    assert np.isfinite(y[0]).all() and np.isnan(y[1]).all()


@pytest.mark.parametrize("name", INT8)
@pytest.mark.parametrize(("n_out", "k", "n"), [(16, 32, 1), (40, 96, 5), (32, 1120, 67)])
def test_product_is_the_twins(addresses: dict[str, int], name: str, n_out: int, k: int, n: int) -> None:
    blocks, meant = weights(n_out, k, name)
    x = activations(n, k)
    assert same_bits(product(addresses, blocks, x, name), naive.finish(naive.linear_int8(meant, x)))


def test_product_at_the_limits_is_the_twins(addresses: dict[str, int]) -> None:
    """All quants +-127: sums that 24 bits do not hold, and pairs of products at the limit of 16 bits."""
    blocks = np.full((16, 2048), 0.5, np.float16)
    blocks[1] *= -1
    blocks[2, ::2] *= -1
    blocks[3] = 0
    x = np.full((3, 2048), 5.0, np.float32)
    x[1] *= -1
    x[2, ::2] *= -1
    y = product(addresses, blocks.view(np.uint8).reshape(16, 2048, 2), x)
    assert same_bits(y, naive.finish(naive.linear_int8(blocks.astype(np.float32), x)))


def test_product_with_vnni_is_the_twins() -> None:
    """There signed weights are multiplied plus 128. Its instructions are spelled out for this machine."""
    blocks, meant = weights(24, 96)
    x = activations(11, 96)
    addresses = {r: compiled_here(r, EMULATED[0]) for r in (ROWS_KERNEL, LINEAR["F16"])}
    assert same_bits(product(addresses, blocks, x), naive.finish(naive.linear_int8(meant, x)))


def test_one_row_alone_is_the_row_among_others(addresses: dict[str, int]) -> None:
    """Another row's outliers do not make a column one: that is where this differs from the paper."""
    blocks, _ = weights(32, 64)
    x = activations(11, 64)
    together = product(addresses, blocks, x)
    for row in range(len(x)):
        assert same_bits(product(addresses, blocks, x[row : row + 1]), together[row : row + 1])


@pytest.mark.parametrize("name", INT8)
def test_outliers_meet_the_files_own_weights(addresses: dict[str, int], name: str) -> None:
    """A row with nothing but outliers is the plain product, up to the rounding of f32 sums."""
    blocks, meant = weights(32, 64, name)
    x = np.random.default_rng(2).uniform(6, 90, (5, 64)).astype(np.float32)
    assert same_bits(product(addresses, blocks, x, name), naive.finish(naive.linear_floats(meant, x)))


def test_products_keep_the_papers_bound(addresses: dict[str, int]) -> None:
    """|y - x W| is at most what half a step in each factor of each term allows."""
    blocks, meant = weights(48, 512)
    x = activations(9, 512)
    usual = np.where(np.abs(x) < THRESHOLD, x, 0).astype(np.float64)
    step_x, step_w = np.abs(usual).max(axis=1) / 254, np.abs(meant).max(axis=1) / 254
    bound = np.abs(usual).sum(axis=1)[:, None] * step_w + step_x[:, None] * np.abs(meant).sum(axis=1)
    bound += 512 * step_x[:, None] * step_w + 1e-4  # and the rounding of sums in f32
    error = np.abs(product(addresses, blocks, x) - x.astype(np.float64) @ meant.T.astype(np.float64))
    assert np.all(error <= bound)
    assert error.mean() > 1e-3  # it is int8 that was measured


def test_without_the_decomposition_outliers_would_cost_the_others(addresses: dict[str, int]) -> None:
    """What it is for: with one scale for usual values and outliers alike the error is many times as large."""
    blocks, meant = weights(48, 512)
    x = activations(9, 512)
    exact = x.astype(np.float64) @ meant.T.astype(np.float64)
    with_outliers = x[::2]
    plain = naive.linear_int8(meant, with_outliers, threshold=np.inf)
    ours = product(addresses, blocks, x)[::2]
    assert np.abs(ours - exact[::2]).mean() * 3 < np.abs(plain - exact[::2]).mean()
