"""IQ4_XS: 256 weights in 136 bytes, 8 sub-blocks of 32: w = (d * sc) * VALUES[q] with IQ4_NL's sixteen levels.

File     d f16, scales_h u16: bits 4..5 of sc + 32 of sub-block s at bit 2 s, scales_l u8[4]: the low nibbles, two in a
         byte, qs u8[128]: 16 bytes a sub-block, low nibbles are its weights 0..15, high nibbles 16..31
Packed   16 rows: d f16[16], sc i8[4][16 rows][2]; qs u8[8][4][16 rows][4]                                 2,208 bytes
Sum      y = fma(d * dx, f32(sum of sc * (sum of VALUES[q] * x)), y)
Source   ggml-common.h block_iq4_xs; gguf-py quants.py IQ4_XS
"""

import numpy as np

from chenxing.quants.base import interleave, interleave_groups, register
from chenxing.quants.iq4_nl import VALUES

PACKED = 32 + 128 + 2048


def pack(blocks: np.ndarray) -> np.ndarray:
    low = (blocks[..., 4:8, None] >> np.array([0, 4], np.uint8)) & 15
    high = (blocks[..., 2:4, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
    shape = (*blocks.shape[:-1], 8)
    sc = (low.reshape(shape) | high.reshape(shape) << 4) - np.uint8(32)
    parts = [interleave(blocks[..., :2]), interleave_groups(sc, 2), interleave_groups(blocks[..., 8:], 4)]
    return np.concatenate(parts, axis=-1)


def tile():
    from chenxing.kernels import simd as v
    from chenxing.kernels import simd_dot as dot
    from chenxing.kernels.tiles import SuperBlocks, super_blocks

    ld, lo, hi, values = dot.vectors(4), dot.bits_at(0, 15), dot.bits_at(4, 15), dot.lookup(VALUES)

    @v.kernel_inline
    def quants(w, i):
        a = ld(w + 160 + i * 512)
        b = ld(w + 416 + i * 512)
        return values(lo(a) + hi(a) + lo(b) + hi(b))

    return super_blocks(SuperBlocks(PACKED, 32, quants, dot.pairs_at(32), largest=0, largest_scale=32))


def decode():
    from chenxing.kernels import simd as v

    @v.kernel_inline
    def block(src, dst):
        d = v.ld_f16(src)
        high = v.ld_u16(src + 2)
        for s in range(8):
            low = (v.ld_u8(src + 4 + s // 2) >> (s % 2 * 4)) & 15
            ds = v.f32(d * v.f32((low | (high >> (2 * s) & 3) << 4) - 32))
            for i in range(16):
                q = v.ld_u8(src + 8 + s * 16 + i)
                out = dst + (s * 32 + i) * 4
                v.st_f32(out, v.f32(ds * v.f32(VALUES[q & 15])))
                v.st_f32(out + 64, v.f32(ds * v.f32(VALUES[q >> 4])))

    return block


register(23, activation="q8k", packed_bytes=PACKED, pack=pack, tile=tile, decode=decode)
