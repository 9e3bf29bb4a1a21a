"""Q5_1: 32 weights in 24 bytes, w = d * q + m.

File     d f16, m f16, qh u32: bit i is the high bit of weight i, qs u8[16]: low nibbles are weights 0..15, high 16..31
Packed   16 rows: d f16[16], m f16[16]; high bits u8[16 rows][4]: bit j of byte i is k = 4j+i; qs u8[4][16 rows][4]:
         byte i of vector j is k = 4j+i and 16+4j+i                                                          384 bytes
Sum      y = fma(d * dx, f32(sum of q * x), y); y = fma(m, dx * sum of x, y)
Source   ggml-common.h block_q5_1; gguf-py quants.py Q5_1
"""

import numpy as np

from chenxing.quants.base import interleave, interleave_groups, register
from chenxing.quants.bit_fields import bit_planes

PACKED = 64 + 64 + 256


def pack(blocks: np.ndarray) -> np.ndarray:
    d, m, qh, qs = blocks[..., :2], blocks[..., 2:4], blocks[..., 4:8], blocks[..., 8:]
    parts = [interleave(d), interleave(m), interleave(bit_planes(qh)), interleave_groups(qs, 4)]
    return np.concatenate(parts, axis=-1)


def tile():
    from chenxing.kernels import simd as v
    from chenxing.kernels import simd_dot as dot
    from chenxing.kernels.tiles import SmallBlocks, small_blocks

    ld, lo, hi, high = dot.vectors(4), dot.bits_at(0, 15), dot.bits_at(4, 15), dot.put_fields(1, 0, 4)

    @v.kernel_inline
    def quants(w):
        q = ld(w + 128)
        return high(lo(q) + hi(q), v.ld_u8x64(w + 64))

    return small_blocks(SmallBlocks(PACKED, quants, largest=31, minimum=True))


def decode():
    from chenxing.kernels import simd as v

    @v.kernel_inline
    def block(src, dst):
        d = v.ld_f16(src)
        m = v.ld_f16(src + 2)
        high = v.ld_i32(src + 4)
        for i in range(16):
            q = v.ld_u8(src + 8 + i)
            first = (q & 15) | (high >> i & 1) << 4
            second = q >> 4 | (high >> (16 + i) & 1) << 4
            v.st_f32(dst + i * 4, v.f32(v.f32(d * v.f32(first)) + m))
            v.st_f32(dst + (16 + i) * 4, v.f32(v.f32(d * v.f32(second)) + m))

    return block


register(7, activation="q8", packed_bytes=PACKED, pack=pack, tile=tile, decode=decode)
