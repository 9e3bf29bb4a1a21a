"""The 6-bit scales and minima that Q4_K and Q5_K share: 8 pairs in 12 bytes.

Bytes 0..3 hold scales 0..3 in their low 6 bits and the top 2 bits of scales 4..7 above; bytes 4..7 the same for the
minima; bytes 8..11 the low 4 bits of scales 4..7 (low nibble) and of minima 4..7 (high nibble).
Source  ggml-quants.c get_scale_min_k4.
"""

import numpy as np


def unpack_6bit_pairs(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """u8[..., 12] -> scales u8[..., 8], minima u8[..., 8]."""
    a, b, c = (packed[..., i : i + 4].view("<u4") for i in (0, 4, 8))  # four scales a word
    sc = np.concatenate([a & 0x3F3F3F3F, (c & 0x0F0F0F0F) | (a >> 2 & 0x30303030)], axis=-1)
    m = np.concatenate([b & 0x3F3F3F3F, (c >> 4 & 0x0F0F0F0F) | (b >> 2 & 0x30303030)], axis=-1)
    return sc.view(np.uint8), m.view(np.uint8)


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
