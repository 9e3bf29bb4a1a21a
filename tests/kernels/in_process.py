"""Kernels of kernels_under_test.py, compiled in this process for any instruction set that the machine has."""

import ctypes
from functools import cache

import numpy as np

from chenxing.kernels.isa import ISA, host_features, supported
from chenxing.kernels.objects import Loader

_KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
HERE = supported(host_features())


class Compiler:
    """Calls kernels by reference; each is compiled once a session and instruction set."""

    def __init__(self) -> None:
        self._loader = Loader()
        self.address = cache(self._address)

    def _address(self, reference: str, isa: ISA) -> int:
        from chenxing.kernels.compile import compile_kernel, configure

        configure(isa)
        return self._loader.load(compile_kernel(reference, isa))

    def call(self, reference: str, isa: ISA, *args: object, n_chunks: int = 1) -> None:
        """Run all chunks; arrays among the arguments are passed as their addresses."""
        words = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in args]
        table = np.array(words, np.int64)
        kernel, at = _KERNEL(self.address(reference, isa)), table.ctypes.data
        for chunk in range(n_chunks):
            kernel(at, chunk, 0)
