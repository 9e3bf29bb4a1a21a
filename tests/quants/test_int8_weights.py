"""Float weights packed for LLM.int8(): the paper's bound, the tile, and the file's own values in it bit by bit."""

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from chenxing.kernels.layout import INT8_COLUMNS, INT8_HEAD
from chenxing.quants import INT8, QUANTS
from chenxing.quants.int8 import pack_columns, point_to_columns, quantise


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
def test_the_tiles(name: str, k: int) -> None:
    """Scales, the way to the columns, and quants in fours of k."""
    values = random_values(48, k)
    blocks = file_blocks(name, values)
    meant = gguf.quants.dequantize(blocks.reshape(48, -1), Type[name]).reshape(48, k)
    tiles = INT8[name].pack(blocks)
    assert tiles.shape == (3, INT8[name].tile_bytes(k)) == (3, INT8_HEAD + 16 * k)
    q, scales = quantise(meant)
    for t, tile in enumerate(tiles):
        rows = slice(16 * t, 16 * t + 16)
        assert np.array_equal(tile[:64].view(np.float32), scales[rows])
        found = tile[INT8_HEAD:].view(np.int8).reshape(k // 4, 16, 4)
        assert np.array_equal(found.transpose(1, 0, 2).reshape(16, k), q[rows])


@pytest.mark.parametrize("name", INT8)
def test_every_tile_finds_its_columns(name: str) -> None:
    """They follow all tiles, column by column, each with all rows of whole tiles."""
    blocks = file_blocks(name, random_values(60, 32))
    padded = np.concatenate([blocks, np.zeros((4, *blocks.shape[1:]), np.uint8)])
    tiles, columns = INT8[name].pack(padded), pack_columns(blocks)
    for first in (0, 3):  # tiles are packed in pieces
        point_to_columns(INT8[name], tiles[first:], first, 4)
    whole = np.concatenate([tiles.reshape(-1), columns.reshape(-1)])
    assert whole.nbytes == INT8[name].matrix_bytes(4, 32)
    size = 16 * blocks.shape[-1]
    for t in range(4):
        start = t * tiles.shape[1]
        way, to_next = whole[start + INT8_COLUMNS :][:16].view(np.int64)
        for k in range(32):
            found = whole[start + way + k * to_next :][:size]
            assert np.array_equal(found, padded[16 * t : 16 * t + 16, k].reshape(-1))


@pytest.mark.parametrize("name", INT8)
def test_the_formats_have_names_of_their_own(name: str) -> None:
    assert INT8[name].name == f"{name}_INT8" and INT8[name].name not in QUANTS
