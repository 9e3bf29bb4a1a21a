"""Q6_K: 256 weights in 210 bytes, 16 sub-blocks of 16: w = (d * sc) * (q - 32).

File     ql u8[128], qh u8[64], scales i8[16], d f16. Halves of 128 weights; in a half, weight 32 s + i (s < 4) has its
         low nibble in ql[32 (s % 2) + i] (low nibble for s < 2) and its high 2 bits in qh[i] at bit 2 s
Packed   16 rows: d f16[16], sc i8[16][16], then per half ql u8[16][16 rows][4], qh u8[8][16 rows][4]       3,360 bytes
Sum      y = fma(d * dx, f32(sum of sc * (sum of q * x - 32 sum of x)), y)
Source   ggml-common.h block_q6_K; gguf-py quants.py Q6_K
"""

import numpy as np

from chenxing.quants.base import interleave, interleave_groups, register

PACKED = 32 + 256 + 3072


def pack(blocks: np.ndarray) -> np.ndarray:
    parts = [interleave(blocks[..., 208:210]), interleave_groups(blocks[..., 192:208], 1)]
    for half in range(2):
        parts.append(interleave_groups(blocks[..., half * 64 : half * 64 + 64], 4))
        parts.append(interleave_groups(blocks[..., 128 + half * 32 : 160 + half * 32], 4))
    return np.concatenate(parts, axis=-1)


def tile(n: int):
    from chenxing.kernels import layout as L
    from chenxing.kernels import simd as v
    from chenxing.kernels import simd_dot as dot

    zeros, izeros, dots = v.zeros_f32(n), v.zeros_i32(n), dot.dot_unsigned(4, 63)
    nibble = (dot.bits_at(0, 15), dot.bits_at(4, 15))
    high = tuple(dot.bits_to(2 * s, 3, 4) for s in range(4))
    low_0, low_1 = nibble
    high_0, high_1, high_2, high_3 = high

    def sub_block(low, top):
        """Sub-block of 16 of quarter s: 4 vectors of nibbles at ql, 4 of high bits at qh."""

        @v.kernel_inline
        def run(total, ql, qh, x, sums, stride, sc):
            ws = (
                top(low(v.ld_u8x64(ql)), v.ld_u8x64(qh)),
                top(low(v.ld_u8x64(ql + 64)), v.ld_u8x64(qh + 64)),
                top(low(v.ld_u8x64(ql + 128)), v.ld_u8x64(qh + 128)),
                top(low(v.ld_u8x64(ql + 192)), v.ld_u8x64(qh + 192)),
            )
            part = dots(izeros(), ws, x, stride)
            part = dot.minus_sums(part, 32, sums, stride)
            return v.mul_add(total, part, v.ld_i8x16(sc))

        return run

    quarter_0, quarter_1 = sub_block(low_0, high_0), sub_block(low_0, high_1)
    quarter_2, quarter_3 = sub_block(low_1, high_2), sub_block(low_1, high_3)

    @v.kernel_inline
    def q6_k(w, x, stride, n_blocks):
        acc = zeros()
        for _ in range(n_blocks):
            total = izeros()
            for h in range(2):
                ql = w + 288 + h * 1536
                for line in range(0, 1680, 64):
                    v.prefetch(w + 8192 + h * 1680 + line)
                for k in range(2):
                    a = ql + k * 256
                    qh = ql + 1024 + k * 256
                    xs = x + h * 128 + k * 16
                    sums = x + L.Q8K_SUMS + h * 16 + k * 2
                    sc = w + 32 + h * 128 + k * 16
                    total = quarter_0(total, a, qh, xs, sums, stride, sc)
                    total = quarter_1(total, a + 512, qh, xs + 32, sums + 4, stride, sc + 32)
                    total = quarter_2(total, a, qh, xs + 64, sums + 8, stride, sc + 64)
                    total = quarter_3(total, a + 512, qh, xs + 96, sums + 12, stride, sc + 96)
            acc = v.add_scaled(acc, total, v.ld_f16x16(w), x + L.Q8K_D, stride)
            w += PACKED
            x += L.Q8K_BLOCK
        return acc

    return q6_k


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
