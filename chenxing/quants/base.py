"""ggml's tensor types, and the registry that each format file fills in.

Source  gguf-py constants.py (GGMLQuantizationType, GGML_QUANT_SIZES) at gguf 0.19; equality with it is a test.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class GGMLType:
    """One ggml tensor type: `block_size` weights are stored in `type_size` bytes."""

    id: int
    name: str
    block_size: int
    type_size: int


GGML_TYPES: dict[int, GGMLType] = {
    t.id: t
    for t in (
        GGMLType(0, "F32", 1, 4),
        GGMLType(1, "F16", 1, 2),
        GGMLType(2, "Q4_0", 32, 18),
        GGMLType(3, "Q4_1", 32, 20),
        GGMLType(6, "Q5_0", 32, 22),
        GGMLType(7, "Q5_1", 32, 24),
        GGMLType(8, "Q8_0", 32, 34),
        GGMLType(9, "Q8_1", 32, 40),
        GGMLType(10, "Q2_K", 256, 84),
        GGMLType(11, "Q3_K", 256, 110),
        GGMLType(12, "Q4_K", 256, 144),
        GGMLType(13, "Q5_K", 256, 176),
        GGMLType(14, "Q6_K", 256, 210),
        GGMLType(15, "Q8_K", 256, 292),
        GGMLType(16, "IQ2_XXS", 256, 66),
        GGMLType(17, "IQ2_XS", 256, 74),
        GGMLType(18, "IQ3_XXS", 256, 98),
        GGMLType(19, "IQ1_S", 256, 50),
        GGMLType(20, "IQ4_NL", 32, 18),
        GGMLType(21, "IQ3_S", 256, 110),
        GGMLType(22, "IQ2_S", 256, 82),
        GGMLType(23, "IQ4_XS", 256, 136),
        GGMLType(24, "I8", 1, 1),
        GGMLType(25, "I16", 1, 2),
        GGMLType(26, "I32", 1, 4),
        GGMLType(27, "I64", 1, 8),
        GGMLType(28, "F64", 1, 8),
        GGMLType(29, "IQ1_M", 256, 56),
        GGMLType(30, "BF16", 1, 2),
        GGMLType(34, "TQ1_0", 256, 54),
        GGMLType(35, "TQ2_0", 256, 66),
        GGMLType(39, "MXFP4", 32, 17),
        GGMLType(40, "NVFP4", 64, 36),
        GGMLType(41, "Q1_0", 128, 18),
    )
}


@dataclass(frozen=True)
class QuantType:
    """A weight format that kernels run on, packed into tiles of 16 rows.

    activation     what x is turned into before the product: "q8", "q8k" or "f32" (kernels/rows.py)
    packed_bytes   one block of 16 rows in a packed tile
    pack           u8[16 n, n_blocks, type_size] file blocks -> u8[n, n_blocks, packed_bytes] tiles
    tile           () -> kernels/tiles.py's Tile; imports the SIMD vocabulary when called
    decode         () -> kernel function (block address, f32 address): one file block, bit-exact to gguf.quants
    head_bytes     before a tile's blocks
    column_bytes   16 rows of one k in the file's own type, where these follow all tiles column by column
    """

    type: GGMLType
    activation: str
    packed_bytes: int
    pack: Callable[[np.ndarray], np.ndarray]
    tile: Callable
    decode: Callable
    head_bytes: int = 0
    column_bytes: int = 0

    @property
    def name(self) -> str:
        return self.type.name

    def tile_bytes(self, n_blocks: int) -> int:
        """Of 16 rows: what every product reads."""
        return self.head_bytes + n_blocks * self.packed_bytes

    def matrix_bytes(self, n_tiles: int, n_blocks: int) -> int:
        """Of all that is kept; what products seldom read included."""
        return n_tiles * (self.tile_bytes(n_blocks) + n_blocks * self.column_bytes)


QUANTS: dict[str, QuantType] = {}
TILE_ROWS = 16


def register(
    ggml_id: int, *, activation: str, packed_bytes: int, pack: Callable, tile: Callable, decode: Callable
) -> QuantType:
    """Add a format to QUANTS; its file calls this once."""
    ggml = GGML_TYPES[ggml_id]
    assert ggml.name not in QUANTS and packed_bytes % 32 == 0
    QUANTS[ggml.name] = QuantType(ggml, activation, packed_bytes, pack, tile, decode)
    return QUANTS[ggml.name]


def interleave(fields: np.ndarray) -> np.ndarray:
    """u8[16 n, n_blocks, b] one field of b bytes a row -> u8[n, n_blocks, 16 b], rows side by side."""
    return interleave_groups(fields, fields.shape[-1])


def interleave_groups(fields: np.ndarray, group: int) -> np.ndarray:
    """u8[16 n, n_blocks, b] -> u8[n, n_blocks, 16 b]: for every `group` bytes of k, the 16 rows side by side."""
    rows, n_blocks, width = fields.shape
    unit = next(n for n in (8, 4, 2, 1) if group % n == 0)  # moved as words: ten times as fast as byte by byte
    words = fields.view(f"u{unit}")
    tiles = words.reshape(rows // TILE_ROWS, TILE_ROWS, n_blocks, width // group, group // unit).transpose(
        0, 2, 3, 1, 4
    )
    return np.ascontiguousarray(tiles).view(np.uint8).reshape(rows // TILE_ROWS, n_blocks, TILE_ROWS * width)
