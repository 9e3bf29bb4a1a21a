"""Q3_K: 256 weights in 110 bytes, 16 sub-blocks of 16: w = (d * sc) * (q - 4).

File     hmask u8[32], qs u8[64], scales u8[12], d f16. Halves of 128 weights; in half h, weight 32 s + i (s < 4) has
         its low 2 bits in qs[32 h + i] at bit 2 s and its high bit in hmask[i] at bit 4 h + s. Of sc + 32, sub-blocks
         b and b + 8 have their low nibbles in scales[b] (low, high) and sub-block b its top 2 bits in
         scales[8 + b % 4] at bit 2 (b // 4)
Packed   16 rows: d f16[16], sc i8[8][16 rows][2]: two sub-blocks side by side; then for each two sub-blocks the high
         bits u8[16 rows][4]: bit j of byte i is k = 4j+i of the 32; qs u8[2][16 rows][4]: byte i has k = 4j+i of the
         16 at bit 2 j                                                                                       1,824 bytes
Sum      y = fma(d * dx, f32(sum of sc * (sum of q * x - 4 sum of x)), y)
Source   ggml-common.h block_q3_K; gguf-py quants.py Q3_K
"""

import numpy as np

from chenxing.quants.base import interleave, interleave_groups, register
from chenxing.quants.bit_fields import crumbs, high_bits, side_by_side

PACKED = 32 + 256 + 1536


def _scales(packed: np.ndarray) -> np.ndarray:
    """u8[..., 12] -> sc as the bytes of i8[..., 16]."""
    low = np.concatenate([packed[..., :8] & 15, packed[..., :8] >> 4], axis=-1)
    high = (packed[..., None, 8:] >> np.array([[0], [2], [4], [6]], np.uint8)) & 3
    return (low | high.reshape(low.shape) << 4) - np.uint8(32)


def pack(blocks: np.ndarray) -> np.ndarray:
    high = high_bits(blocks[..., :32]).reshape(*blocks.shape[:-1], 8, 4)
    low = crumbs(blocks[..., 32:96]).reshape(*blocks.shape[:-1], 8, 8)
    fields = side_by_side(high, low).reshape(*blocks.shape[:-1], 96)
    parts = [interleave(blocks[..., 108:110]), interleave_groups(_scales(blocks[..., 96:108]), 2)]
    return np.concatenate([*parts, interleave_groups(fields, 4)], axis=-1)


def tile():
    from chenxing.kernels import simd as v
    from chenxing.kernels import simd_dot as dot
    from chenxing.kernels.tiles import SuperBlocks, super_blocks

    low, high_even, high_odd = dot.fields(2, 4), dot.put_fields(1, 0, 2), dot.put_fields(1, 4, 2)

    @v.kernel_inline
    def quants(w, i):
        q = w + 288 + i * 192
        high = v.ld_u8x64(q)
        return high_even(low(v.ld_u8x64(q + 64)), high) + high_odd(low(v.ld_u8x64(q + 128)), high)

    return super_blocks(SuperBlocks(PACKED, 16, quants, dot.pairs_at(32), largest=7, largest_scale=32, offset=4))


def decode():
    from chenxing.kernels import simd as v

    @v.kernel_inline
    def block(src, dst):
        d = v.ld_f16(src + 108)
        for b in range(16):
            low = (v.ld_u8(src + 96 + b % 8) >> (b // 8 * 4)) & 15
            top = (v.ld_u8(src + 104 + b % 4) >> (b // 4 * 2)) & 3
            ds = v.f32(d * v.f32((low | top << 4) - 32))
            for i in range(16):
                j = b % 2 * 16 + i
                q = (v.ld_u8(src + 32 + b // 8 * 32 + j) >> (b % 8 // 2 * 2)) & 3
                high = (v.ld_u8(src + j) >> (b // 2)) & 1
                v.st_f32(dst + (b * 16 + i) * 4, v.f32(ds * v.f32((q | high << 2) - 4)))

    return block


register(11, activation="q8k", packed_bytes=PACKED, pack=pack, tile=tile, decode=decode)
