"""Weight formats, one file each. Importing this registers them all in QUANTS."""

from chenxing.quants import floats, q4_1, q4_k, q6_k, q8_0  # noqa: F401
from chenxing.quants.base import GGML_TYPES, QUANTS, TILE_ROWS, GGMLType, QuantType

__all__ = ["GGML_TYPES", "QUANTS", "TILE_ROWS", "GGMLType", "QuantType"]
