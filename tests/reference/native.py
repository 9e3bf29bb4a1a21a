"""Matrix kernels called by hand: what a recorded program does for one operation, from numpy arrays to a numpy array."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from chenxing.config import settings
from chenxing.kernels import layout as L
from chenxing.kernels.isa import ISAS, host_features, supported
from chenxing.kernels.library import KernelLibrary
from chenxing.kernels.memory import address, aligned
from chenxing.quants import TILE_ROWS

KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
RUNNABLE = [isa.name for isa in supported(host_features(settings().isa))]  # with AMX if CHENXING_ISA names it


@cache
def library(isa: str) -> KernelLibrary:
    """One library a session and instruction set, so that every kernel is compiled at most once."""
    return KernelLibrary(ISAS[isa])


def kernels(isa: str, references: Iterable[str]) -> dict[str, int]:
    """Addresses by reference; name all that will be needed, since they are compiled side by side."""
    references = list(references)
    library(isa).require(references)
    return {r: library(isa).addresses[r] for r in references}


def call(kernel: int, args: list[int], chunk: int = 0, tid: int = 0) -> None:
    table = np.array(args, np.int64)
    KERNEL(kernel)(table.ctypes.data, chunk, tid)


def f32_bits(value: float) -> int:
    return int(np.float32(value).view(np.int32))


def q8_rows(q: np.ndarray, d: np.ndarray) -> np.ndarray:
    """i8[n, k], f32[n, k / 32] -> u8[n, bytes] of Q8 blocks, by kernels/layout.py."""
    n, k = q.shape
    rows = aligned((n + L.SPARE_ROWS, k // 32, L.Q8_BLOCK))[:n]
    sums = q.reshape(n, -1, 32).sum(axis=-1, dtype=np.int32)
    rows[..., :32] = q.reshape(n, -1, 32).view(np.uint8)
    _put(rows, L.Q8_D, d)
    _put(rows, L.Q8_DSUM, d * sums.astype(np.float32))
    _put(rows, L.Q8_SUM, sums)
    return rows.reshape(n, -1)


def q8k_rows(q: np.ndarray, d: np.ndarray) -> np.ndarray:
    """i8[n, k], f32[n, k / 256] -> u8[n, bytes] of Q8K blocks, by kernels/layout.py."""
    n, k = q.shape
    rows = aligned((n + L.SPARE_ROWS, k // 256, L.Q8K_BLOCK))[:n]
    rows[..., :256] = q.reshape(n, -1, 256).view(np.uint8)
    _put(rows, L.Q8K_D, d)
    sums = q.reshape(n, -1, 16, 16).sum(axis=-1, dtype=np.int16)
    rows[..., L.Q8K_SUMS : L.Q8K_SUMS + 32] = sums.view(np.uint8)
    sums = q.reshape(n, -1, 8, 32).sum(axis=-1, dtype=np.int16)
    rows[..., L.Q8K_SUMS32 : L.Q8K_SUMS32 + 16] = sums.view(np.uint8)
    return rows.reshape(n, -1)


def _put(rows: np.ndarray, offset: int, values: np.ndarray) -> None:
    rows[..., offset : offset + 4] = np.ascontiguousarray(values)[..., None].view(np.uint8)


@dataclass(frozen=True)
class Linear:
    """Arguments of kernels/matmul.py's `linear` beyond weights and activations; y f32[n, 16 n_tiles] is written."""

    y: np.ndarray
    per_chunk: int = 1 << 20
    add: bool = False
    scale: float = 1.0
    bias: np.ndarray | None = None
    each: int = 0  # bytes from one thread's activations to the next one's

    def run(
        self, kernel: int, packed: np.ndarray, x: np.ndarray, *, chunks: Iterable[int] = (0,), tid: int = 0
    ) -> None:
        """packed u8[n_tiles, n_blocks, bytes], x u8[n, bytes of a row] or f32[n, k]."""
        assert self.y.shape[1] == len(packed) * TILE_ROWS
        self.run_flat(kernel, packed, packed.shape[1], x, chunks, tid)

    def run_flat(
        self, kernel: int, packed: np.ndarray, n_blocks: int, x: np.ndarray, chunks: Iterable[int] = (0,), tid: int = 0
    ) -> None:
        """The same for packed weights of any shape."""
        n, n_tiles = len(self.y), self.y.shape[1] // TILE_ROWS
        assert self.y.flags.c_contiguous and packed.flags.c_contiguous
        step = np.array([1, n, 0, 0, 0, 0, 0, 0], np.int64)
        bias = 0 if self.bias is None else address(self.bias)
        args = [address(packed), address(x), x.strides[0], self.each, n_blocks, n_tiles, self.per_chunk]
        args += [address(self.y), self.y.strides[0], int(self.add), f32_bits(self.scale), bias, address(step), L.N_ROWS]
        for chunk in chunks:
            call(kernel, args, chunk, tid)
