"""F32, F16 and BF16 weights: 16 rows side by side for every k, products with f32 activations.

Packed   per k the 16 rows: 64 bytes (F32) or 32 bytes (F16, BF16)
Sum      y = fma(w, x, y) over ascending k
"""

import numpy as np

from chenxing.quants.base import interleave, register


def _pack(blocks: np.ndarray) -> np.ndarray:
    return interleave(blocks)


def _tile(packed_bytes: int, load: str):
    def tile():
        from chenxing.kernels import simd as v
        from chenxing.kernels.float_tiles import floats

        return floats(packed_bytes, getattr(v, load))

    return tile


def _decode(load: str):
    def decode():
        from chenxing.kernels import simd as v

        ld = getattr(v, load)

        @v.kernel_inline
        def block(src, dst):
            v.st_f32(dst, ld(src))

        return block

    return decode


register(0, activation="f32", packed_bytes=64, pack=_pack, tile=_tile(64, "ld_f32x16"), decode=_decode("ld_f32"))
register(1, activation="f32", packed_bytes=32, pack=_pack, tile=_tile(32, "ld_f16x16"), decode=_decode("ld_f16"))
register(30, activation="f32", packed_bytes=32, pack=_pack, tile=_tile(32, "ld_bf16x16"), decode=_decode("ld_bf16"))
