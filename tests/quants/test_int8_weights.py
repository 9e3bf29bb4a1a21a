"""Float weights packed for LLM.int8(): the paper's bound, the tile, and the file's own values in it bit by bit."""

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from chenxing.quants import INT8, QUANTS
from chenxing.quants.int8 import quantise


def file_blocks(name: str, values: np.ndarray) -> np.ndarray:
    """u8[rows, k, type_size]"""
    return gguf.quants.quantize(values, Type[name]).view(np.uint8).reshape(*values.shape, -1)


def random_values(rows: int, k: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    return (rng.standard_normal((rows, k)) * rng.uniform(1e-3, 10, (rows, 1))).astype(np.float32)


def test_the_error_is_at_most_half_a_step() -> None:
    values = random_values(64, 333)
    q, scales = quantise(values)
    assert q.dtype == np.int8 and np.abs(q).max() == 127
    assert np.all(np.abs(q).max(axis=1) == 127)  # the largest of each row is met exactly
    error = np.abs(values - scales[:, None].astype(np.float64) * q)
    assert np.all(error <= np.abs(values).max(axis=1, keepdims=True) / 254 * (1 + 1e-5))


def test_rows_do_not_depend_on_each_other() -> None:
    values = random_values(5, 64)
    q, scales = quantise(values)
    for row in range(5):
        alone, scale = quantise(values[row : row + 1])
        assert np.array_equal(alone[0], q[row]) and scale[0] == scales[row]


def test_a_row_of_zeros() -> None:
    q, scales = quantise(np.array([[0, -0.0, 0], [1, 2, -4]], np.float32))
    assert scales[0] == 0 and not q[0].any() and q[1].tolist() == [32, 64, -127]


@pytest.mark.parametrize("name", INT8)
@pytest.mark.parametrize("k", [32, 96])
def test_the_tile(name: str, k: int) -> None:
    """Scales, quants in fours of k, then the file's columns: nothing of the file is lost."""
    values = random_values(48, k)
    blocks = file_blocks(name, values)
    meant = gguf.quants.dequantize(blocks.reshape(48, -1), Type[name]).reshape(48, k)
    packed = INT8[name].pack(blocks)
    assert packed.shape == (3, k, INT8[name].packed_bytes) and packed[0].nbytes % 64 == 0
    q, scales = quantise(meant)
    for t, tile in enumerate(packed.reshape(3, -1)):
        rows = slice(16 * t, 16 * t + 16)
        assert np.array_equal(tile[:64].view(np.float32), scales[rows])
        found = tile[64 : 64 + 16 * k].view(np.int8).reshape(k // 4, 16, 4)
        assert np.array_equal(found.transpose(1, 0, 2).reshape(16, k), q[rows])
        size = QUANTS[name].type.type_size
        columns = tile[64 + 16 * k :][: 16 * k * size].reshape(k, 16, size)
        assert np.array_equal(columns.transpose(1, 0, 2), blocks[rows])


@pytest.mark.parametrize("name", INT8)
def test_a_product_reads_a_byte_a_weight(name: str) -> None:
    assert INT8[name].read_bytes == 16 < INT8[name].packed_bytes
    assert INT8[name].name == f"{name}_INT8" and INT8[name].name not in QUANTS
