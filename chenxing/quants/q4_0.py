"""Q4_0: 32 weights in 18 bytes, w = d * (q - 8).

File     d f16, qs u8[16]: low nibbles are weights 0..15, high nibbles 16..31
Packed   16 rows: d f16[16]; qs u8[4][16 rows][4]: byte i of vector j is k = 4j+i and 16+4j+i                288 bytes
Sum      y = fma(d * dx, f32(sum of q * x - 8 sum of x), y)
Source   ggml-common.h block_q4_0; gguf-py quants.py Q4_0
"""

import numpy as np

from chenxing.quants.base import interleave, interleave_groups, register

PACKED = 32 + 256


def pack(blocks: np.ndarray) -> np.ndarray:
    return np.concatenate([interleave(blocks[..., :2]), interleave_groups(blocks[..., 2:], 4)], axis=-1)


def tile():
    from chenxing.kernels import simd as v
    from chenxing.kernels import simd_dot as dot
    from chenxing.kernels.tiles import SmallBlocks, small_blocks

    ld, lo, hi = dot.vectors(4), dot.bits_at(0, 15), dot.bits_at(4, 15)

    @v.kernel_inline
    def quants(w):
        q = ld(w + 32)
        return lo(q) + hi(q)

    return small_blocks(SmallBlocks(PACKED, quants, largest=15, offset=8))


def decode():
    from chenxing.kernels import simd as v

    @v.kernel_inline
    def block(src, dst):
        d = v.ld_f16(src)
        for i in range(16):
            q = v.ld_u8(src + 2 + i)
            v.st_f32(dst + i * 4, v.f32(d * v.f32((q & 15) - 8)))
            v.st_f32(dst + (16 + i) * 4, v.f32(d * v.f32((q >> 4) - 8)))

    return block


register(2, activation="q8", packed_bytes=PACKED, pack=pack, tile=tile, decode=decode)
