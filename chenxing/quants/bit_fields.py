"""Bits and 2-bit quants in the order of packed vectors, which `fields` and `put_fields` of simd_dot.py take apart.

A vector has 16 rows of 4 consecutive k; below, k counts from the start of a sub-block and i is 0..3.
"""

import numpy as np


def bit_planes(words: np.ndarray) -> np.ndarray:
    """u8[..., 4 n], bit k of every 32-bit word -> the same shape: of every 4 bytes, bit j of byte i is k = 4j+i."""
    bits = np.ascontiguousarray(words).view("<u4")
    planes = np.zeros_like(bits)
    for j in range(8):
        # times 1 + 2^7 + 2^14 + 2^21: bit i of these four comes to bit 8 i, and nothing else comes to bits 0, 8, 16, 24
        planes |= ((bits >> 4 * j & 15) * 0x204081 & 0x01010101) << j
    return planes.view(np.uint8)


def high_bits(masks: np.ndarray) -> np.ndarray:
    """u8[..., 32], bit s of byte k -> u8[..., 32], 4 bytes for every s: bit j of byte i is k = 4j+i."""
    return _bytes(_exchanged(_words(masks), 1))


def crumbs(qs: np.ndarray) -> np.ndarray:
    """u8[..., 64], weight 128 h + 32 s + l in byte 32 h + l at bit 2 s -> u8[..., 64], 4 bytes for 16 weights: byte i
    has k = 4j+i at bit 2 j."""
    words = _words(qs)
    groups = words.reshape(2, 2, 4, *words.shape[1:])  # [h, l // 16, j]
    quants = _exchanged(np.moveaxis(groups, 2, 0), 2)  # [s, h, l // 16]
    return _bytes(np.moveaxis(quants, 0, 1).reshape(words.shape))


def side_by_side(*fields: np.ndarray) -> np.ndarray:
    """u8[..., 4 n] each -> u8[..., sum of them]: np.concatenate, but word after word: faster for short fields."""
    columns = [column for field in fields for column in np.moveaxis(field.view("<u4"), -1, 0)]
    out = np.empty((*fields[0].shape[:-1], len(columns)), "<u4")
    for i, column in enumerate(columns):
        out[..., i] = column
    return out.view(np.uint8)


def _words(values: np.ndarray) -> np.ndarray:
    """u8[..., 4 n] -> u32[n, ...]"""
    return np.ascontiguousarray(np.moveaxis(np.ascontiguousarray(values).view("<u4"), -1, 0))


def _bytes(words: np.ndarray) -> np.ndarray:
    """u32[n, ...] -> u8[..., 4 n]"""
    return np.ascontiguousarray(np.moveaxis(words, 0, -1)).view(np.uint8)


def _exchanged(words: np.ndarray, width: int) -> np.ndarray:
    """u32[8 / width, ...]: field s (of `width` bits) of each byte of word j -> field j of the same byte of word s.

    A square matrix is transposed by swapping its off-diagonal quarters, then the quarters of every quarter, and so on.
    Source  Warren, Hacker's Delight (2nd ed.), section 7-3.
    """
    out, n = words.copy(), 8 // width
    half = n // 2
    while half:
        pairs = out.reshape(n // (2 * half), 2, half, *words.shape[1:])
        first, second = pairs[:, 0], pairs[:, 1]
        low_fields = sum(((1 << width) - 1) << width * s for s in range(n) if not s & half) * 0x01010101
        swapped = (first >> half * width ^ second) & low_fields
        second ^= swapped
        first ^= swapped << half * width
        half //= 2
    return out
