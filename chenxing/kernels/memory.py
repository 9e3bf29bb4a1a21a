"""Memory that kernels work on: zeroed numpy arrays whose data starts on a cache line."""

import math
from typing import Any

import numpy as np

from chenxing.kernels.layout import ALIGN


def aligned(shape: int | tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray:
    """A zeroed array; its address is a multiple of ALIGN. The pages are the system's zero page until written."""
    n = (shape if isinstance(shape, int) else math.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(n + ALIGN, np.uint8)
    start = -raw.ctypes.data % ALIGN
    return raw[start : start + n].view(dtype).reshape(shape)


def address(array: np.ndarray) -> int:
    return array.ctypes.data
