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


def tile():
    from chenxing.kernels import simd as v
    from chenxing.kernels import simd_dot as dot
    from chenxing.kernels.tiles import SmallBlocks, small_blocks

    ld = dot.vectors(8)

    @v.kernel_inline
    def quants(w):
        return ld(w + 32)

    return small_blocks(SmallBlocks(PACKED, quants, largest=0))


def decode():
    from chenxing.kernels import simd as v

    @v.kernel_inline
    def block(src, dst):
        d = v.ld_f16(src)
        for i in range(32):
            v.st_f32(dst + i * 4, v.f32(d * v.f32(v.ld_i8(src + 2 + i))))

    return block


register(8, activation="q8", packed_bytes=PACKED, pack=pack, tile=tile, decode=decode)
