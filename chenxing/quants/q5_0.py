"""Q5_0: 32 weights in 22 bytes, w = d * (q - 16).

File     d f16, qh u32: bit i is the high bit of weight i, qs u8[16]: low nibbles are weights 0..15, high nibbles 16..31
Packed   16 rows: d f16[16]; high bits u8[16 rows][4]: bit j of byte i is k = 4j+i; qs u8[4][16 rows][4]: byte i of
         vector j is k = 4j+i and 16+4j+i                                                                    352 bytes
Sum      y = fma(d * dx, f32(sum of q * x - 16 sum of x), y)
Source   ggml-common.h block_q5_0; gguf-py quants.py Q5_0
"""

import numpy as np

from chenxing.quants.base import interleave, interleave_groups, register
from chenxing.quants.bit_fields import bit_planes

PACKED = 32 + 64 + 256


def pack(blocks: np.ndarray) -> np.ndarray:
    d, qh, qs = blocks[..., :2], blocks[..., 2:6], blocks[..., 6:]
    return np.concatenate([interleave(d), interleave(bit_planes(qh)), interleave_groups(qs, 4)], axis=-1)


def tile():
    from chenxing.kernels import simd as v
    from chenxing.kernels import simd_dot as dot
    from chenxing.kernels.tiles import SmallBlocks, small_blocks

    ld, lo, hi, high = dot.vectors(4), dot.bits_at(0, 15), dot.bits_at(4, 15), dot.put_fields(1, 0, 4)

    @v.kernel_inline
    def quants(w):
        q = ld(w + 96)
        return high(lo(q) + hi(q), v.ld_u8x64(w + 32))

    return small_blocks(SmallBlocks(PACKED, quants, largest=31, offset=16))


def decode():
    from chenxing.kernels import simd as v

    @v.kernel_inline
    def block(src, dst):
        d = v.ld_f16(src)
        high = v.ld_i32(src + 2)
        for i in range(16):
            q = v.ld_u8(src + 6 + i)
            first = (q & 15) | (high >> i & 1) << 4
            second = q >> 4 | (high >> (16 + i) & 1) << 4
            v.st_f32(dst + i * 4, v.f32(d * v.f32(first - 16)))
            v.st_f32(dst + (16 + i) * 4, v.f32(d * v.f32(second - 16)))

    return block


register(6, activation="q8", packed_bytes=PACKED, pack=pack, tile=tile, decode=decode)
