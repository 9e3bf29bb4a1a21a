"""Q5_K: 256 weights in 176 bytes, 8 sub-blocks of 32: w = (d * sc) * q - (dmin * m).

File     d f16, dmin f16, scales u8[12] (8 pairs of 6 bits), qh u8[32], qs u8[128]: 4 groups of 32 bytes, group g holds
         sub-block 2g in the low nibbles and 2g+1 in the high ones; the high bit of weight i of sub-block s is in qh[i]
         at bit s
Packed   16 rows: d f16[16], dmin f16[16], sc u8[4][16 rows][2] and m likewise: two sub-blocks side by side; then per
         group the high bits u8[2][16 rows][4]: bit j of byte i is k = 4j+i of a sub-block; qs u8[8][16 rows][4]
                                                                                                             2,880 bytes
Sum      y = fma(d * dx, f32(sum of sc * (sum of q * x)), y); y = fma(-(dmin * dx), f32(sum of m * (sum of x)), y)
Source   ggml-common.h block_q5_K; gguf-py quants.py Q5_K
"""

import numpy as np

from chenxing.quants.base import interleave, interleave_groups, register
from chenxing.quants.bit_fields import high_bits, side_by_side
from chenxing.quants.scales import unpack_6bit_pairs

PACKED = 64 + 256 + 2560


def pack(blocks: np.ndarray) -> np.ndarray:
    sc, m = unpack_6bit_pairs(blocks[..., 4:16])
    parts = [interleave(blocks[..., :2]), interleave(blocks[..., 2:4])]
    parts += [interleave_groups(sc, 2), interleave_groups(m, 2)]
    high = high_bits(blocks[..., 16:48]).reshape(*blocks.shape[:-1], 4, 8)
    low = blocks[..., 48:].reshape(*high.shape[:-1], 32)
    groups = side_by_side(high, low).reshape(*blocks.shape[:-1], 160)
    return np.concatenate([*parts, interleave_groups(groups, 4)], axis=-1)


def tile():
    from chenxing.kernels import simd as v
    from chenxing.kernels import simd_dot as dot
    from chenxing.kernels.tiles import SuperBlocks, super_blocks

    ld, lo, hi, high = dot.vectors(8), dot.bits_at(0, 15), dot.bits_at(4, 15), dot.put_fields(1, 0, 4)

    @v.kernel_inline
    def quants(w, i):
        bits = w + 320 + i * 640
        q = ld(bits + 128)
        return high(lo(q), v.ld_u8x64(bits)) + high(hi(q), v.ld_u8x64(bits + 64))

    scales, minima = dot.pairs_at(64), dot.pairs_at(192)
    return super_blocks(SuperBlocks(PACKED, 32, quants, scales, largest=31, largest_scale=63, minima=minima))


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
                low = (v.ld_u8(src + 48 + s // 2 * 32 + i) >> (s % 2 * 4)) & 15
                high = (v.ld_u8(src + 16 + i) >> s) & 1
                v.st_f32(dst + (s * 32 + i) * 4, v.f32(v.f32(ds * v.f32(low | high << 4)) - ms))

    return block


register(13, activation="q8k", packed_bytes=PACKED, pack=pack, tile=tile, decode=decode)
