"""Q4_1: 32 weights in 20 bytes, w = d * q + m.

File     d f16, m f16, qs u8[16]: low nibbles are weights 0..15, high nibbles 16..31
Packed   16 rows: d f16[16], m f16[16]; qs u8[4][16 rows][4]: byte i of vector j is k = 4j+i and 16+4j+i   320 bytes
Sum      y = fma(d * dx, f32(sum of q * x), y); y = fma(m, dx * sum of x, y)
Source   ggml-common.h block_q4_1; gguf-py quants.py Q4_1
"""

import numpy as np

from chenxing.quants.base import interleave, interleave_groups, register

PACKED = 320


def pack(blocks: np.ndarray) -> np.ndarray:
    d, m, qs = blocks[..., :2], blocks[..., 2:4], blocks[..., 4:]
    return np.concatenate([interleave(d), interleave(m), interleave_groups(qs, 4)], axis=-1)


def tile():
    from chenxing.kernels import simd as v
    from chenxing.kernels import simd_dot as dot
    from chenxing.kernels.tiles import SmallBlocks, small_blocks

    ld, lo, hi = dot.vectors(4), dot.bits_at(0, 15), dot.bits_at(4, 15)

    @v.kernel_inline
    def quants(w):
        q = ld(w + 64)
        return lo(q) + hi(q)

    return small_blocks(SmallBlocks(PACKED, quants, largest=15, minimum=True))


def decode():
    from chenxing.kernels import simd as v

    @v.kernel_inline
    def block(src, dst):
        d = v.ld_f16(src)
        m = v.ld_f16(src + 2)
        for i in range(16):
            q = v.ld_u8(src + 4 + i)
            v.st_f32(dst + i * 4, v.f32(v.f32(d * v.f32(q & 15)) + m))
            v.st_f32(dst + (16 + i) * 4, v.f32(v.f32(d * v.f32(q >> 4)) + m))

    return block


register(3, activation="q8", packed_bytes=PACKED, pack=pack, tile=tile, decode=decode)
