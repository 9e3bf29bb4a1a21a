"""Weight formats, one file each. Importing this registers them all in QUANTS."""

from chenxing.quants import (  # noqa: F401
    floats,
    int8,
    iq4_nl,
    iq4_xs,
    q2_k,
    q3_k,
    q4_0,
    q4_1,
    q4_k,
    q5_0,
    q5_1,
    q5_k,
    q6_k,
    q8_0,
)
from chenxing.quants.base import GGML_TYPES, QUANTS, TILE_ROWS, GGMLType, QuantType
from chenxing.quants.int8 import INT8

__all__ = ["GGML_TYPES", "INT8", "QUANTS", "TILE_ROWS", "GGMLType", "QuantType"]
