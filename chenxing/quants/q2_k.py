"""Q2_K: 256 weights in 84 bytes, 16 sub-blocks of 16: w = (d * sc) * q - (dmin * m).

File     scales u8[16]: sc in the low nibble, m in the high one; qs u8[64]; d f16, dmin f16. Halves of 128 weights; in a
         half, weight 32 s + i (s < 4) is in qs[i] at bit 2 s
Packed   16 rows: d f16[16], dmin f16[16], scales u8[8][16 rows][2]: two sub-blocks side by side; qs u8[16][16 rows][4]:
         one vector a sub-block, byte i has k = 4j+i at bit 2 j                                              1,344 bytes
Sum      y = fma(d * dx, f32(sum of sc * (sum of q * x)), y); y = fma(-(dmin * dx), f32(sum of m * (sum of x)), y)
Source   ggml-common.h block_q2_K; gguf-py quants.py Q2_K
"""

import numpy as np

from chenxing.quants.base import interleave, interleave_groups, register
from chenxing.quants.bit_fields import crumbs

PACKED = 64 + 256 + 1024


def pack(blocks: np.ndarray) -> np.ndarray:
    parts = [interleave(blocks[..., 80:82]), interleave(blocks[..., 82:84])]
    parts += [interleave_groups(blocks[..., :16], 2), interleave_groups(crumbs(blocks[..., 16:80]), 4)]
    return np.concatenate(parts, axis=-1)


def tile():
    from chenxing.kernels import simd as v
    from chenxing.kernels import simd_dot as dot
    from chenxing.kernels.tiles import SuperBlocks, super_blocks

    fields, scales, minima = dot.fields(2, 4), dot.bit_pairs_at(64, 0, 15), dot.bit_pairs_at(64, 4, 15)

    @v.kernel_inline
    def quants(w, i):
        q = w + 320 + i * 128
        return fields(v.ld_u8x64(q)) + fields(v.ld_u8x64(q + 64))

    return super_blocks(SuperBlocks(PACKED, 16, quants, scales, largest=3, largest_scale=15, minima=minima))


def decode():
    from chenxing.kernels import simd as v

    @v.kernel_inline
    def block(src, dst):
        d = v.ld_f16(src + 80)
        dmin = v.ld_f16(src + 82)
        for b in range(16):
            scale = v.ld_u8(src + b)
            ds = v.f32(d * v.f32(scale & 15))
            ms = v.f32(dmin * v.f32(scale >> 4))
            for i in range(16):
                q = (v.ld_u8(src + 16 + b // 8 * 32 + b % 2 * 16 + i) >> (b % 8 // 2 * 2)) & 3
                v.st_f32(dst + (b * 16 + i) * 4, v.f32(v.f32(ds * v.f32(q)) - ms))

    return block


register(10, activation="q8k", packed_bytes=PACKED, pack=pack, tile=tile, decode=decode)
