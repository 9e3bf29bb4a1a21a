"""Random numbers that are the same on every platform and numpy version, and random blocks of the formats that the gguf
package decodes but cannot encode.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type


@dataclass(frozen=True)
class Layout:
    """Where a block keeps its f16 scale and, if it has one, the f16 scale of its minima.

    q_mean: the mean quant, so that minima of q_mean * scale centre the weights on zero.
    scales: bytes of the sub-block scales and minima, in which minima are to resemble scales.
    """

    d: int
    dmin: int | None = None
    q_mean: float = 0.0
    scales: slice | None = None


LAYOUTS = {
    Type.Q2_K: Layout(d=80, dmin=82, q_mean=1.5, scales=slice(0, 16)),
    Type.Q3_K: Layout(d=108),
    Type.Q4_K: Layout(d=0, dmin=2, q_mean=7.5, scales=slice(4, 16)),
    Type.Q5_K: Layout(d=0, dmin=2, q_mean=15.5, scales=slice(4, 16)),
    Type.Q6_K: Layout(d=208),
    Type.IQ4_NL: Layout(d=0),
    Type.IQ4_XS: Layout(d=0),
}


def random_bits(name: str, n: int) -> np.ndarray:
    """u64[n], determined by name: numpy promises PCG64's raw stream, not its distributions."""
    return np.random.PCG64(zlib.crc32(name.encode())).random_raw(n)


def uniform(name: str, shape: tuple[int, ...], low: float, high: float) -> np.ndarray:
    """f32[shape] in [low, high), determined by name."""
    unit = (random_bits(name, int(np.prod(shape))) >> np.uint64(11)) * 2.0**-53
    return (low + (high - low) * unit).astype(np.float32).reshape(shape)


def random_blocks(name: str, shape: tuple[int, ...], std: float, ggml_type: Type) -> np.ndarray:
    """u8[..., row bytes] of blocks whose weights have mean about 0 and standard deviation about `std`."""
    layout = LAYOUTS[ggml_type]
    block_size, type_size = gguf.GGML_QUANT_SIZES[ggml_type]
    n_blocks = int(np.prod(shape)) // block_size
    n_words = -(-n_blocks * type_size // 8)
    blocks = random_bits(name, n_words).view(np.uint8)[: n_blocks * type_size].reshape(n_blocks, type_size).copy()
    _tie_minima(blocks, layout, ggml_type)
    spread = uniform(f"{name}.d", (n_blocks, 1), 0.5, 1.5)
    _set_scale(blocks, layout, spread)
    unit = float(np.std(gguf.quants.dequantize(blocks, ggml_type)))
    _set_scale(blocks, layout, spread * np.float32(std / unit))
    return blocks.reshape(*shape[:-1], -1)


def _set_scale(blocks: np.ndarray, layout: Layout, d: np.ndarray) -> None:
    blocks[:, layout.d : layout.d + 2] = d.astype(np.float16).view(np.uint8)
    if layout.dmin is not None:
        blocks[:, layout.dmin : layout.dmin + 2] = (d * np.float32(layout.q_mean)).astype(np.float16).view(np.uint8)


def _tie_minima(blocks: np.ndarray, layout: Layout, ggml_type: Type) -> None:
    """Make each sub-block's minimum differ from its scale in the lowest bits only, as a real file's roughly do.

    Unrelated ones would shift whole sub-blocks off zero and drown the quants; equal ones would hide a swap of the two.
    """
    if layout.scales is None:
        return
    scales = blocks[:, layout.scales]
    if ggml_type == Type.Q2_K:  # low nibble: scale, high nibble: minimum
        scales[:] = (scales & 0x0F) | ((scales << 4) ^ (scales & 0x10))
    else:  # bytes 0-3 scales 0-3, 4-7 minima 0-3, 8-11 both low nibbles of 4-7
        scales[:, 4:8] = scales[:, 0:4] ^ (scales[:, 4:8] & 1)
        scales[:, 8:12] = (scales[:, 8:12] & 0x0F) | ((scales[:, 8:12] << 4) ^ (scales[:, 8:12] & 0x10))
