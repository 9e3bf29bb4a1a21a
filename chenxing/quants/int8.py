"""F32, F16 and BF16 weights as int8 with one scale a row, the file's own values beside them (LLM.int8()).

INT8 has these formats by the name of the file's type. No file has them: they are chosen when a model is loaded.

Packed   kernels/int8.py has the tile. Of the file's values a product reads the columns of its outliers alone
Quants   dw = max |w| / 127 over the row, q = round to nearest even(w / dw): |w - dw q| <= max |w| / 254
Sum      y = (dw * dx) * f32(sum of q * x), then fma over the outliers in ascending k
Source   Dettmers et al. 2022, equations 4 to 8, with the constants of the weights' rows fixed when they are packed
"""

from dataclasses import replace

import numpy as np

from chenxing.kernels.layout import INT8_PER_K
from chenxing.quants.base import QUANTS, TILE_ROWS, QuantType, interleave_groups


def quantise(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f32[rows, k] -> i8[rows, k], f32[rows] scales; a row of zeros has scale 0."""
    scales = np.abs(weights).max(axis=1) / np.float32(127.0)
    safe = np.where(scales > 0, scales, np.float32(1.0))
    return np.rint(weights / safe[:, None]).astype(np.int8), scales


def _pack(name: str, blocks: np.ndarray) -> np.ndarray:
    """u8[16 n, k, type_size] -> u8[n, k, bytes for every k], tile by tile as kernels/int8.py says; k is a multiple of
    32."""
    n_tiles, k = len(blocks) // TILE_ROWS, blocks.shape[1]
    q, scales = quantise(_as_f32(name, blocks))
    tiles = np.zeros((n_tiles, k * INT8[name].packed_bytes), np.uint8)
    tiles[:, :64] = scales.reshape(n_tiles, TILE_ROWS).view(np.uint8)
    tiles[:, 64 : 64 + 16 * k] = interleave_groups(q.view(np.uint8)[:, None], 4).reshape(n_tiles, -1)
    columns = QUANTS[name].pack(blocks).reshape(n_tiles, -1)
    tiles[:, 64 + 16 * k : 64 + 16 * k + columns.shape[1]] = columns
    return tiles.reshape(n_tiles, k, -1)


def _as_f32(name: str, blocks: np.ndarray) -> np.ndarray:
    """f32[rows, k] of a float type's u8[rows, k, type_size]."""
    data = np.ascontiguousarray(blocks)
    if name == "BF16":
        return (data.view(np.uint16)[..., 0].astype(np.uint32) << 16).view(np.float32)
    return data.view({"F16": np.float16, "F32": np.float32}[name])[..., 0].astype(np.float32)


def _format(name: str, load: str) -> QuantType:
    column_bytes = QUANTS[name].packed_bytes

    def tile():
        from chenxing.kernels import simd as v
        from chenxing.kernels.int8 import int8_tile

        return int8_tile(column_bytes, getattr(v, load))

    return replace(
        QUANTS[name],
        type=replace(QUANTS[name].type, name=f"{name}_INT8"),
        activation="int8",
        packed_bytes=INT8_PER_K + column_bytes,
        pack=lambda blocks: _pack(name, blocks),
        tile=tile,
        read_bytes=TILE_ROWS,
    )


INT8: dict[str, QuantType] = {
    name: _format(name, load) for name, load in (("F32", "ld_f32x16"), ("F16", "ld_f16x16"), ("BF16", "ld_bf16x16"))
}
