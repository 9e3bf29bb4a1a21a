"""Q4_1: 32 weights in 20 bytes, w = d * q + m.

File     d f16, m f16, qs u8[16]: low nibbles are weights 0..15, high nibbles 16..31
Packed   16 rows: d f16[16], m f16[16]; qs u8[4][16 rows][4]: byte i of vector j is k = 4j+i and 16+4j+i   320 bytes
Sum      y = fma(d * dx, f32(sum of q * x), y); y = fma(m, dx * sum of x, y)
Source   ggml-common.h block_q4_1; gguf-py quants.py Q4_1
"""

import numpy as np

from chenxing.quants.base import interleave, interleave_groups, register

PACKED = 320


def pack(blocks: np.ndarray) -> np.ndarray:
    d, m, qs = blocks[..., :2], blocks[..., 2:4], blocks[..., 4:]
    return np.concatenate([interleave(d), interleave(m), interleave_groups(qs, 4)], axis=-1)


def tile(n: int):
    from chenxing.kernels import layout as L
    from chenxing.kernels import simd as v
    from chenxing.kernels import simd_dot as dot

    zeros, izeros, dots = v.zeros_f32(n), v.zeros_i32(n), dot.dot_unsigned(4, 15)
    lo, hi = dot.bits_at(0, 15), dot.bits_at(4, 15)

    @v.kernel_inline
    def q4_1(w, x, stride, n_blocks):
        acc = zeros()
        for _ in range(n_blocks):
            for line in range(0, PACKED, 64):
                v.prefetch(w + 8192 + line)
            a, b, c, d = v.ld_u8x64(w + 64), v.ld_u8x64(w + 128), v.ld_u8x64(w + 192), v.ld_u8x64(w + 256)
            total = dots(izeros(), (lo(a), lo(b), lo(c), lo(d)), x, stride)
            total = dots(total, (hi(a), hi(b), hi(c), hi(d)), x + 16, stride)
            acc = v.add_scaled(acc, total, v.ld_f16x16(w), x + L.Q8_D, stride)
            acc = v.rank1(acc, v.ld_f16x16(w + 32), x + L.Q8_DSUM, stride)
            w += PACKED
            x += L.Q8_BLOCK
        return acc

    return q4_1


def decode():
    from chenxing.kernels import simd as v

    @v.kernel_inline
    def block(src, dst):
        d = v.ld_f16(src)
        m = v.ld_f16(src + 2)
        for i in range(16):
            q = v.ld_u8(src + 4 + i)
            v.st_f32(dst + i * 4, v.f32(v.f32(d * v.f32(q & 15)) + m))
            v.st_f32(dst + (16 + i) * 4, v.f32(v.f32(d * v.f32(q >> 4)) + m))

    return block


register(3, activation="q8", packed_bytes=PACKED, pack=pack, tile=tile, decode=decode)
