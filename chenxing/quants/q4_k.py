"""Q4_K: 256 weights in 144 bytes, 8 sub-blocks of 32: w = (d * sc) * q - (dmin * m).

File     d f16, dmin f16, scales u8[12] (8 pairs of 6 bits), qs u8[128]: 4 groups of 32 bytes, group g holds sub-block
         2g in the low nibbles and 2g+1 in the high ones
Packed   16 rows: d f16[16], dmin f16[16], sc u8[4][16 rows][2] and m likewise: two sub-blocks side by side,
         qs u8[4][8][16 rows][4]                                                                             2,368 bytes
Sum      y = fma(d * dx, f32(sum of sc * (sum of q * x)), y); y = fma(-(dmin * dx), f32(sum of m * (sum of x)), y)
Source   ggml-common.h block_q4_K; gguf-py quants.py Q4_K
"""

import numpy as np

from chenxing.quants.base import interleave, interleave_groups, register
from chenxing.quants.scales import unpack_6bit_pairs

PACKED = 64 + 256 + 2048


def pack(blocks: np.ndarray) -> np.ndarray:
    sc, m = unpack_6bit_pairs(blocks[..., 4:16])
    parts = [interleave(blocks[..., :2]), interleave(blocks[..., 2:4])]
    parts += [interleave_groups(sc, 2), interleave_groups(m, 2), interleave_groups(blocks[..., 16:], 4)]
    return np.concatenate(parts, axis=-1)


def tile():
    from chenxing.kernels import simd as v
    from chenxing.kernels import simd_dot as dot
    from chenxing.kernels.tiles import SuperBlocks, super_blocks

    ld, lo, hi = dot.vectors(8), dot.bits_at(0, 15), dot.bits_at(4, 15)

    @v.kernel_inline
    def quants(w, i):
        q = ld(w + 320 + i * 512)
        return lo(q) + hi(q)

    scales, minima = dot.pairs_at(64), dot.pairs_at(192)
    return super_blocks(SuperBlocks(PACKED, 32, quants, scales, largest=15, largest_scale=63, minima=minima))


def decode():
    from chenxing.kernels import simd as v
    from chenxing.quants.scales import scale_6bit

    scale = scale_6bit()

    @v.kernel_inline
    def block(src, dst):
        d = v.ld_f16(src)
        dmin = v.ld_f16(src + 2)
        for s in range(8):
            sc, m = scale(src + 4, s)
            ds = v.f32(d * v.f32(sc))
            ms = v.f32(dmin * v.f32(m))
            for i in range(32):
                q = (v.ld_u8(src + 16 + s // 2 * 32 + i) >> (s % 2 * 4)) & 15
                v.st_f32(dst + (s * 32 + i) * 4, v.f32(v.f32(ds * v.f32(q)) - ms))

    return block


register(12, activation="q8k", packed_bytes=PACKED, pack=pack, tile=tile, decode=decode)
