"""F32, F16 and BF16 weights as int8 with one scale a row, the file's own values beside them (LLM.int8()).

INT8 has these formats by the name of the file's type. No file has them: they are chosen when a model is loaded.

Packed   kernels/int8.py has the tile. Of the file's values a product reads the columns of its outliers alone
Quants   dw = max |w| / 127 over the row, q = round to nearest even(w / dw): |w - dw q| <= max |w| / 254
Sum      y = (dw * dx) * f32(sum of q * x), then fma over the outliers in ascending k
Source   Dettmers et al. 2022, equations 4 to 8, with the constants of the weights' rows fixed when they are packed
"""

from dataclasses import replace

import numpy as np

from chenxing.kernels.layout import INT8_COLUMN, INT8_COLUMNS, INT8_HEAD
from chenxing.quants.base import QUANTS, TILE_ROWS, QuantType, interleave_groups


def quantise(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f32[rows, k] -> i8[rows, k], f32[rows] scales; a row of zeros has scale 0."""
    scales = np.abs(weights).max(axis=1) / np.float32(127.0)
    safe = np.where(scales > 0, scales, np.float32(1.0))
    return np.rint(weights / safe[:, None]).astype(np.int8), scales


def point_to_columns(quant: QuantType, tiles: np.ndarray, first: int, n_tiles: int) -> None:
    """Write into u8[n, tile bytes], tiles `first` and following of n_tiles, where their columns are."""
    t = np.arange(first, first + len(tiles))
    starts = (n_tiles - t) * tiles.shape[1] + t * quant.column_bytes
    tiles[:, INT8_COLUMNS : INT8_COLUMNS + 8] = starts[:, None].view(np.uint8)
    tiles[:, INT8_COLUMN : INT8_COLUMN + 8] = np.array([n_tiles * quant.column_bytes]).view(np.uint8)


def pack_columns(blocks: np.ndarray) -> np.ndarray:
    """u8[rows, k, type_size] of the file -> u8[k, rows of whole tiles, type_size]; missing rows are zero."""
    rows, k, size = blocks.shape
    words = np.ascontiguousarray(blocks).view(f"u{size}")[..., 0]
    columns = np.zeros((k, -(-rows // TILE_ROWS) * TILE_ROWS), words.dtype)
    columns[:, :rows] = words.T
    return columns.view(np.uint8).reshape(k, -1, size)


def _pack(name: str, blocks: np.ndarray) -> np.ndarray:
    """u8[16 n, k, type_size] -> u8[n, tile bytes], the place of the columns left open; k is a multiple of 32."""
    n_tiles = len(blocks) // TILE_ROWS
    q, scales = quantise(_as_f32(name, blocks))
    tiles = np.zeros((n_tiles, INT8[name].tile_bytes(blocks.shape[1])), np.uint8)
    tiles[:, :64] = scales.reshape(n_tiles, TILE_ROWS).view(np.uint8)
    tiles[:, INT8_HEAD:] = interleave_groups(q.view(np.uint8)[:, None], 4).reshape(n_tiles, -1)
    return tiles


def _as_f32(name: str, blocks: np.ndarray) -> np.ndarray:
    """f32[rows, k] of a float type's u8[rows, k, type_size]."""
    data = np.ascontiguousarray(blocks)
    if name == "BF16":
        return (data.view(np.uint16)[..., 0].astype(np.uint32) << 16).view(np.float32)
    return data.view({"F16": np.float16, "F32": np.float32}[name])[..., 0].astype(np.float32)


def _format(name: str, load: str) -> QuantType:
    def tile():
        from chenxing.kernels import simd as v
        from chenxing.kernels.int8 import int8_tile

        return int8_tile(getattr(v, load))

    return replace(
        QUANTS[name],
        type=replace(QUANTS[name].type, name=f"{name}_INT8"),
        activation="int8",
        packed_bytes=TILE_ROWS,
        pack=lambda blocks: _pack(name, blocks),
        tile=tile,
        head_bytes=INT8_HEAD,
        column_bytes=TILE_ROWS * QUANTS[name].type.type_size,
    )


INT8: dict[str, QuantType] = {
    name: _format(name, load) for name, load in (("F32", "ld_f32x16"), ("F16", "ld_f16x16"), ("BF16", "ld_bf16x16"))
}
