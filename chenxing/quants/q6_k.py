"""Q6_K: 256 weights in 210 bytes, 16 sub-blocks of 16: w = (d * sc) * (q - 32).

File     ql u8[128], qh u8[64], scales i8[16], d f16. Halves of 128 weights; in a half, weight 32 s + i (s < 4) has its
         low nibble in ql[32 (s % 2) + i] (low nibble for s < 2) and its high 2 bits in qh[i] at bit 2 s
Packed   16 rows: d f16[16], sc i8[8][16 rows][2]: two sub-blocks side by side; then for each sub-block the high bits
         u8[16 rows][4]: byte i has k = 4j+i at bit 2 j; ql u8[2][16 rows][4]: byte i of vector j is k = 4j+i and
         8+4j+i                                                                                              3,360 bytes
Sum      y = fma(d * dx, f32(sum of sc * (sum of q * x - 32 sum of x)), y)
Source   ggml-common.h block_q6_K; gguf-py quants.py Q6_K
"""

import numpy as np

from chenxing.quants.base import interleave, interleave_groups, register
from chenxing.quants.bit_fields import crumbs, side_by_side

PACKED = 32 + 256 + 3072


def _low(ql: np.ndarray) -> np.ndarray:
    """u8[..., 128] -> u8[..., 16, 8]: of a sub-block, weights 0..7 in the low nibbles and 8..15 in the high ones."""
    words = ql.view("<u8").reshape(*ql.shape[:-1], 2, 1, 4, 2)  # [..., half, 1, sub-block % 4, which 8 weights]
    even, odd = words[..., 0], words[..., 1]
    low, high = 0x0F0F0F0F0F0F0F0F, 0xF0F0F0F0F0F0F0F0
    q = np.concatenate([even & low | odd << 4 & high, even >> 4 & low | odd & high], axis=-2)
    return q.reshape(*ql.shape[:-1], 16).view(np.uint8).reshape(*ql.shape[:-1], 16, 8)


def pack(blocks: np.ndarray) -> np.ndarray:
    high = crumbs(blocks[..., 128:192]).reshape(*blocks.shape[:-1], 16, 4)
    quants = side_by_side(high, _low(blocks[..., :128])).reshape(*blocks.shape[:-1], 192)
    parts = [interleave(blocks[..., 208:210]), interleave_groups(blocks[..., 192:208], 2), interleave_groups(quants, 4)]
    return np.concatenate(parts, axis=-1)


def tile():
    from chenxing.kernels import simd as v
    from chenxing.kernels import simd_dot as dot
    from chenxing.kernels.tiles import SuperBlocks, super_blocks

    ld, lo, hi, high = dot.vectors(2), dot.bits_at(0, 15), dot.bits_at(4, 15), dot.put_fields(2, 0, 4)

    @v.kernel_inline
    def sub_block(w):
        q = ld(w + 64)
        return high(lo(q) + hi(q), v.ld_u8x64(w))

    @v.kernel_inline
    def quants(w, i):
        return sub_block(w + 288 + i * 384) + sub_block(w + 480 + i * 384)

    return super_blocks(SuperBlocks(PACKED, 16, quants, dot.pairs_at(32), largest=63, largest_scale=128, offset=32))


def decode():
    from chenxing.kernels import simd as v

    @v.kernel_inline
    def block(src, dst):
        d = v.ld_f16(src + 208)
        for i in range(256):
            half, s, j = i // 128, i % 128 // 32, i % 32
            low = (v.ld_u8(src + half * 64 + s % 2 * 32 + j) >> (s // 2 * 4)) & 15
            top = (v.ld_u8(src + 128 + half * 32 + j) >> (2 * s)) & 3
            ds = v.f32(d * v.f32(v.ld_i8(src + 192 + i // 16)))
            v.st_f32(dst + i * 4, v.f32(ds * v.f32((low | top << 4) - 32)))

    return block


register(14, activation="q8k", packed_bytes=PACKED, pack=pack, tile=tile, decode=decode)
