"""The slow, obvious twin of the attention kernels: what pages hold, and every f32 operation in the documented order."""

from __future__ import annotations

import numpy as np

from reference.naive import fma

SEGMENT = 512
_F = np.float32
_EXP2 = (0.693147202857122, 0.2402264791333895, 0.05550332467873433, 0.00961843737699124, 0.0013398875441376777)
_EXP2 += (0.00015353359145336252,)


def stored(kv_type: str, x: np.ndarray) -> np.ndarray:
    """f32[..., n]: what x is after it was kept in pages; scales of q8_0 are for each 32 of the last axis."""
    if kv_type == "f32":
        return x
    if kv_type == "f16":
        return x.astype(np.float16).astype(_F)
    if kv_type == "bf16":
        bits = x.view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(_F)
    assert kv_type == "q8_0"
    padded = np.zeros((*x.shape[:-1], -(-x.shape[-1] // 32) * 32), _F)
    padded[..., : x.shape[-1]] = x
    strips = padded.reshape(*x.shape[:-1], -1, 32)
    d = (np.abs(strips).max(axis=-1, keepdims=True) / _F(127)).astype(np.float16).astype(_F)
    q = np.rint(np.clip(strips / np.where(d == 0, _F(1), d), -127, 127))
    return np.where(d == 0, _F(0), q * d).reshape(padded.shape)[..., : x.shape[-1]]


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, position: int, *, window: int | None = None, sink: float | None = None
) -> np.ndarray:
    """f32[head_dim] of one row and head.

    q        f32[head_dim], times scale * log2 e
    k, v     f32[n, head_dim] of positions 0..n, as stored
    """
    first = 0 if window is None else max(0, position - window + 1)
    state = None
    for base in range(first // SEGMENT * SEGMENT, position + 1, SEGMENT):
        lo, hi = max(first, base), min(position + 1, base + SEGMENT)
        part = _segment(q, k[lo:hi], v[lo:hi], lo - base)
        state = part if state is None else _merge(state, part)
    assert state is not None
    m, total, acc = state
    scale = _F(1)
    if sink is not None:
        logit = _F(_F(sink) * _F(1.4426950408889634))
        top = max(m, logit)
        scale, other = exp2(np.array([m - top, logit - top], _F))
        total = _F(_F(total * scale) + other)
    return fma(np.zeros_like(acc), acc, np.broadcast_to(_F(scale / total), acc.shape))


def _segment(q: np.ndarray, k: np.ndarray, v: np.ndarray, offset: int) -> tuple[np.float32, np.float32, np.ndarray]:
    """Maximum, sum and weighted values; offset: of the first key in its segment."""
    s = np.zeros(len(k), _F)
    for d in range(len(q)):
        s = fma(s, k[:, d], np.broadcast_to(q[d], s.shape))
    m = s.max()
    p = exp2(s - m)
    lanes = np.zeros(SEGMENT, _F)
    lanes[offset : offset + len(p)] = p
    total = np.zeros(16, _F)
    for line in lanes.reshape(-1, 16):
        total = total + line
    for half in (8, 4, 2, 1):
        total = total + np.roll(total, -half)
    acc = np.zeros(v.shape[1], _F)
    for weight, value in zip(p, v, strict=True):
        acc = fma(acc, value, np.broadcast_to(weight, acc.shape))
    return m, total[0], acc


def _merge(one: tuple, two: tuple) -> tuple[np.float32, np.float32, np.ndarray]:
    """The online softmax."""
    m = max(one[0], two[0])
    a, b = exp2(np.array([one[0] - m, two[0] - m], _F))
    acc = fma(one[2] * a, two[2], np.broadcast_to(b, two[2].shape))
    return m, _F(_F(one[1] * a) + _F(two[1] * b)), acc


def exp2(x: np.ndarray) -> np.ndarray:
    """2^x of f32 x <= 0, as kernels/maths.py does it."""
    x = np.maximum(x, _F(-127))
    magic = _F(12582912 + 127)
    t = x + magic
    f = x - (t - magic)
    p = np.full_like(x, _F(_EXP2[-1]))
    for c in (*_EXP2[-2::-1], 1.0):
        p = fma(np.full_like(x, _F(c)), p, f)
    return p * (t.view(np.uint32) << 23).view(_F)
