"""Random blocks of weights: any bytes are quants, the scales are set so that the weights have a wanted spread.

Speed does not depend on the values, so nothing is encoded; but activations must stay finite and of the usual size.
"""

from collections.abc import Iterable

import numpy as np
from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as Type


def random_blocks(rng: np.random.Generator, shape: tuple[int, int], std: float, kind: Type) -> np.ndarray:
    """u8[rows, row bytes] of f(rows, columns) weights of mean about 0 and standard deviation about `std`."""
    block_size, type_size = GGML_QUANT_SIZES[kind]
    rows, columns = shape
    n_blocks = rows * columns // block_size
    blocks = np.frombuffer(rng.bytes(n_blocks * type_size), np.uint8).reshape(n_blocks, type_size).copy()
    _SET[kind](blocks, std)
    return blocks.reshape(rows, -1)


def _rms(values: Iterable[float]) -> float:
    return float(np.sqrt(np.mean(np.square(list(values)))))


def _centred(n: int) -> float:
    """Standard deviation of the whole numbers 0..n-1."""
    return float(np.sqrt((n * n - 1) / 12))


def _put_f16(blocks: np.ndarray, at: int, value: float) -> None:
    blocks[:, at : at + 2] = np.float16(value).reshape(1).view(np.uint8)


# Formats with minima: w = d sc q - dmin m. With m = sc and dmin = mean(q) d, w = d sc (q - mean(q)): each minimum is
# made equal to its scale, or whole sub-blocks would lie far from zero.


def _q2_k(blocks: np.ndarray, std: float) -> None:
    """scales u8[16] (low nibble sc, high one m), qs u8[64], d, dmin."""
    blocks[:, :16] = (blocks[:, :16] & 15) * 17
    d = std / (_rms(range(16)) * _centred(4))
    _put_f16(blocks, 80, d)
    _put_f16(blocks, 82, 1.5 * d)


def _q3_k(blocks: np.ndarray, std: float) -> None:
    """hmask u8[32], qs u8[64], scales u8[12] of 6 bits less 32, d."""
    _put_f16(blocks, 108, std / (_rms(range(-32, 32)) * _rms(range(-4, 4))))


def _q4_k(blocks: np.ndarray, std: float) -> None:
    """d, dmin, scales u8[12]: sc 0-3, m 0-3, low nibbles of sc and m 4-7 (their high bits stand in the others)."""
    scales = blocks[:, 4:16]
    scales[:, 4:8] = scales[:, :4]
    scales[:, 8:] = (scales[:, 8:] & 15) * 17
    d = std / (_rms(range(64)) * _centred(16))
    _put_f16(blocks, 0, d)
    _put_f16(blocks, 2, 7.5 * d)


def _q6_k(blocks: np.ndarray, std: float) -> None:
    """ql u8[128], qh u8[64], scales i8[16], d; quants less 32."""
    _put_f16(blocks, 208, std / (_rms(range(-128, 128)) * _rms(range(-32, 32))))


def _q8_0(blocks: np.ndarray, std: float) -> None:
    """d, qs i8[32]; encoders never write -128."""
    quants = blocks[:, 2:]
    quants[quants == 128] = 129
    _put_f16(blocks, 0, std / _rms(range(-127, 128)))


_SET = {Type.Q2_K: _q2_k, Type.Q3_K: _q3_k, Type.Q4_K: _q4_k, Type.Q6_K: _q6_k, Type.Q8_0: _q8_0}
