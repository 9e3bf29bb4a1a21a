"""Slow, obvious twins of the matrix kernels: integer sums in i64, then f32 operations in the documented order.

The integers of a block come from the gguf package's decoder: with the scale set to 1 and the minima's to 0 it gives
(sub-block scale) x (quant) exactly, with them set to 0 and 1 the minima. So neither packing nor our decoders take part.
"""

from __future__ import annotations

from dataclasses import dataclass

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type


@dataclass(frozen=True)
class Scales:
    """Where a file block keeps its f16 scale d and, if it has one, the f16 scale or value of its minima."""

    d: int
    minimum: int | None = None


SCALES = {
    Type.Q4_0: Scales(0),
    Type.Q4_1: Scales(0, 2),
    Type.Q5_0: Scales(0),
    Type.Q5_1: Scales(0, 2),
    Type.Q8_0: Scales(0),
    Type.IQ4_NL: Scales(0),
    Type.IQ4_XS: Scales(0),
    Type.Q2_K: Scales(80, 82),
    Type.Q3_K: Scales(108),
    Type.Q4_K: Scales(0, 2),
    Type.Q5_K: Scales(0, 2),
    Type.Q6_K: Scales(208),
}
FLOATS = (Type.F32, Type.F16, Type.BF16)
ADDED_MINIMA = (Type.Q4_1, Type.Q5_1)  # w = d q + m, not d sc q - dmin m


def fma(acc: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x * y + acc of f32 arrays with one rounding.

    In f64 the product is exact; the sum is rounded to odd, so that the rounding to f32 sees on which side it lies.
    """
    product = x.astype(np.float64) * y.astype(np.float64)
    addend = acc.astype(np.float64)
    total = product + addend
    other = total - product
    error = (product - (total - other)) + (addend - other)  # exact: Knuth's two-sum
    even = total.view(np.int64) & 1 == 0
    towards = np.copysign(np.inf, error)
    return np.where((error != 0) & even, np.nextafter(total, towards), total).astype(np.float32)


def f16_at(blocks: np.ndarray, offset: int) -> np.ndarray:
    """The f16 at a byte offset of every block, as f32[...]."""
    return np.ascontiguousarray(blocks[..., offset : offset + 2]).view(np.float16)[..., 0].astype(np.float32)


def set_f16(blocks: np.ndarray, offset: int | None, values: object) -> None:
    """Write f16 values at a byte offset of every block."""
    if offset is not None:
        halves = np.broadcast_to(np.asarray(values, np.float16), blocks.shape[:-1])
        blocks[..., offset : offset + 2] = np.ascontiguousarray(halves)[..., None].view(np.uint8)


def decoded(kind: Type, blocks: np.ndarray, d: float, minimum: float) -> np.ndarray:
    """i64[rows, n_blocks, block_size]: the weights if these were the blocks' scales."""
    blocks = blocks.copy()
    set_f16(blocks, SCALES[kind].d, d)
    set_f16(blocks, SCALES[kind].minimum, minimum)
    weights = gguf.quants.dequantize(blocks.reshape(len(blocks), -1), kind)
    assert np.array_equal(weights, np.rint(weights))
    return weights.astype(np.int64).reshape(*blocks.shape[:2], -1)


def linear_quantised(kind: Type, blocks: np.ndarray, q: np.ndarray, d: np.ndarray) -> np.ndarray:
    """f32[n, rows] = x W^T of file blocks u8[rows, n_blocks, type_size] with activations x = d q.

    q  i8[n, k]
    d  f32[n, n_blocks]
    """
    quants = decoded(kind, blocks, 1, 0)
    minima = None if SCALES[kind].minimum is None else decoded(kind, blocks, 0, 1)
    x = q.astype(np.int64).reshape(len(q), *quants.shape[1:])
    y = np.zeros((len(q), len(blocks)), np.float32)
    for b in range(quants.shape[1]):
        dx = d[:, b, None]
        y = fma(y, f16_at(blocks[:, b], SCALES[kind].d) * dx, _f32(x[:, b] @ quants[:, b].T))
        if kind in ADDED_MINIMA:
            m = f16_at(blocks[:, b], SCALES[kind].minimum)
            y = fma(y, np.broadcast_to(m, y.shape), dx * _f32(x[:, b].sum(axis=1, keepdims=True)))
        elif minima is not None:
            dmin = f16_at(blocks[:, b], SCALES[kind].minimum)
            y = fma(y, -(dmin * dx), _f32(x[:, b] @ -minima[:, b].T))
    return y


def int8_rows(x: np.ndarray, largest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """i8 and f32 scales of the rows of x f32[n, k], whose largest |x| are f32[n]: round(x * 127 / largest)."""
    inverse = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=largest > 0)
    return np.rint(x * inverse[:, None]).astype(np.int8), largest / np.float32(127)


def linear_int8(weights: np.ndarray, x: np.ndarray, threshold: float = 6.0) -> np.ndarray:
    """f32[n, rows] = x W^T of f32[rows, k] and f32[n, k] by LLM.int8(), outliers found in each row alone."""
    dw = np.abs(weights).max(axis=1) / np.float32(127)
    qw = np.rint(weights / np.where(dw > 0, dw, np.float32(1))[:, None]).astype(np.int64)
    is_outlier = ~(np.abs(x) < threshold)
    usual = np.where(is_outlier, np.float32(0), x)
    qx, dx = int8_rows(usual, np.abs(usual).max(axis=1))
    scale = dw * dx[:, None]
    y = fma(np.zeros_like(scale), scale, _f32(qx.astype(np.int64) @ qw.T))
    for row, columns in enumerate(is_outlier):
        for k in np.flatnonzero(columns):
            y[row] = fma(y[row], weights[:, k], np.full(len(weights), x[row, k]))
    return y


def linear_floats(weights: np.ndarray, x: np.ndarray) -> np.ndarray:
    """f32[n, rows] = x W^T of f32[rows, k] and f32[n, k]: one fma for every k, ascending."""
    y = np.zeros((len(x), len(weights)), np.float32)
    for k in range(weights.shape[1]):
        y = fma(y, np.broadcast_to(weights[:, k], y.shape), np.broadcast_to(x[:, k, None], y.shape))
    return y


def finish(values: np.ndarray, scale: float = 1.0, bias: object = 0.0, y: object = -0.0) -> np.ndarray:
    """(values + bias) * scale + y: the last step of every product. Nothing is added to by adding to -0."""
    total = values + np.asarray(bias, np.float32)
    old, factor = (np.broadcast_to(np.asarray(a, np.float32), total.shape) for a in (y, scale))
    return fma(old, total, factor)


def _f32(sums: np.ndarray) -> np.ndarray:
    """The integer sums as f32, after a check that i32 held them."""
    assert np.abs(sums).max() < 2**31
    return sums.astype(np.float32)
