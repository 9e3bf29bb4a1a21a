"""IQ4_NL: 32 weights in 18 bytes, w = d * VALUES[q]: sixteen levels, closer together near zero.

File     d f16, qs u8[16]: low nibbles are weights 0..15, high nibbles 16..31
Packed   16 rows: d f16[16]; qs u8[4][16 rows][4]: byte i of vector j is k = 4j+i and 16+4j+i                288 bytes
Sum      y = fma(d * dx, f32(sum of VALUES[q] * x), y)
Source   ggml-common.h block_iq4_nl, kvalues_iq4nl; gguf-py quants.py IQ4_NL
"""

import numpy as np

from chenxing.quants.base import interleave, interleave_groups, register

PACKED = 32 + 256
VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def pack(blocks: np.ndarray) -> np.ndarray:
    return np.concatenate([interleave(blocks[..., :2]), interleave_groups(blocks[..., 2:], 4)], axis=-1)


def tile(n: int):
    from chenxing.kernels import layout as L
    from chenxing.kernels import simd as v
    from chenxing.kernels import simd_dot as dot

    zeros, izeros, dots, values = v.zeros_f32(n), v.zeros_i32(n), dot.dot_signed(4), dot.lookup(VALUES)
    ld, lo, hi = dot.vectors(4), dot.bits_at(0, 15), dot.bits_at(4, 15)

    @v.kernel_inline
    def iq4_nl(w, x, stride, n_blocks):
        acc = zeros()
        for _ in range(n_blocks):
            for line in range(0, PACKED, 64):
                v.prefetch(w + 8192 + line)
            q = ld(w + 32)
            total = dot.signed_start(izeros(), x + L.Q8_SUM, stride)
            total = dots(total, values(lo(q)), x, stride)
            total = dots(total, values(hi(q)), x + 16, stride)
            acc = v.add_scaled(acc, total, v.ld_f16x16(w), x + L.Q8_D, stride)
            w += PACKED
            x += L.Q8_BLOCK
        return acc

    return iq4_nl


def decode():
    from chenxing.kernels import simd as v

    @v.kernel_inline
    def block(src, dst):
        d = v.ld_f16(src)
        for i in range(16):
            q = v.ld_u8(src + 2 + i)
            v.st_f32(dst + i * 4, v.f32(d * v.f32(VALUES[q & 15])))
            v.st_f32(dst + (16 + i) * 4, v.f32(d * v.f32(VALUES[q >> 4])))

    return block


register(20, activation="q8", packed_bytes=PACKED, pack=pack, tile=tile, decode=decode)
