"""Q8_0: 32 weights in 34 bytes, w = d * q.

File     d f16, qs i8[32]
Packed   16 rows: d f16[16]; q i8[8][16 rows][4], vector j holds k = 4j..4j+3                544 bytes
Sum      y = fma(d * dx, f32(sum of q * x), y): one exact i32 sum a block
Source   ggml-common.h block_q8_0; gguf-py quants.py Q8_0
"""

import numpy as np

from chenxing.quants.base import interleave, interleave_groups, register

PACKED = 544


def pack(blocks: np.ndarray) -> np.ndarray:
    return np.concatenate([interleave(blocks[..., :2]), interleave_groups(blocks[..., 2:], 4)], axis=-1)


def tile(n: int):
    from chenxing.kernels import layout as L
    from chenxing.kernels import simd as v
    from chenxing.kernels import simd_dot as dot

    zeros, izeros, dots = v.zeros_f32(n), v.zeros_i32(n), dot.dot_signed(4)

    @v.kernel_inline
    def q8_0(w, x, stride, n_blocks):
        acc = zeros()
        for _ in range(n_blocks):
            for line in range(0, PACKED, 64):
                v.prefetch(w + 8192 + line)
            total = dot.signed_start(izeros(), x + L.Q8_SUM, stride)
            for j in range(2):
                q = w + 32 + j * 256
                ws = (v.ld_u8x64(q), v.ld_u8x64(q + 64), v.ld_u8x64(q + 128), v.ld_u8x64(q + 192))
                total = dots(total, ws, x + j * 16, stride)
            acc = v.add_scaled(acc, total, v.ld_f16x16(w), x + L.Q8_D, stride)
            w += PACKED
            x += L.Q8_BLOCK
        return acc

    return q8_0


def decode():
    from chenxing.kernels import simd as v

    @v.kernel_inline
    def block(src, dst):
        d = v.ld_f16(src)
        for i in range(32):
            v.st_f32(dst + i * 4, v.f32(d * v.f32(v.ld_i8(src + 2 + i))))

    return block


register(8, activation="q8", packed_bytes=PACKED, pack=pack, tile=tile, decode=decode)
