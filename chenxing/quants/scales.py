"""The 6-bit scales and minima that Q4_K and Q5_K share: 8 pairs in 12 bytes.

Bytes 0..3 hold scales 0..3 in their low 6 bits and the top 2 bits of scales 4..7 above; bytes 4..7 the same for the
minima; bytes 8..11 the low 4 bits of scales 4..7 (low nibble) and of minima 4..7 (high nibble).
Source  ggml-quants.c get_scale_min_k4.
"""

import numpy as np


def unpack_6bit_pairs(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u8[..., 12] -> scales u8[..., 8], minima u8[..., 8]."""
    a, b, c = packed[..., 0:4], packed[..., 4:8], packed[..., 8:12]
    sc = np.concatenate([a & 63, (c & 15) | (a >> 6 << 4)], axis=-1)
    m = np.concatenate([b & 63, (c >> 4) | (b >> 6 << 4)], axis=-1)
    return sc, m


def scale_6bit():
    """The kernel function (address of the 12 bytes, s) -> scale s, minimum s."""
    from chenxing.kernels import simd as v

    @v.kernel_inline
    def scale(p, s):
        if s < 4:
            return v.ld_u8(p + s) & 63, v.ld_u8(p + 4 + s) & 63
        c = v.ld_u8(p + 4 + s)
        return (c & 15) | (v.ld_u8(p + s - 4) >> 6 << 4), (c >> 4) | (v.ld_u8(p + s) >> 6 << 4)

    return scale
