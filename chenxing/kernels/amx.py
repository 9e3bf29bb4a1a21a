"""AMX: eight tile registers of up to 16 rows of 64 bytes, and an instruction that multiplies two and adds to a third.

    C[i][j] += sum over k of A[i][k] * B[k][j]        8-bit A and B, 32-bit C; exact
    A    16 rows of activations, `depth` consecutive k of each
    B    a row of 64 bytes for every 4 consecutive k, those of 16 rows of weights: one packed vector
    C    16 rows of activations x 16 rows of weights: row i is an i32x16, lanes are rows of weights

A register keeps its part, so that one configuration serves a kernel: SUMS are Cs, ROWS As, WEIGHTS Bs. A thread begins
with `configure` and ends with `release`: in between the system saves 8 KiB more whenever it switches threads.
These are builders over LLVM values, but for the two operations `configure` and `release`.

Source  Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1 chapter 18 (registers, configuration) and
        volume 2 (LDTILECFG, TILELOADD, TILESTORED, TDPBSSD, TDPBSUD); LLVM 22 IntrinsicsX86.td
"""

import struct
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from chenxing.kernels.simd import I8, I64, call, op, void

SIDE = 16  # rows of activations, and of weights, of a C
SUMS_BYTES = SIDE * 64  # of a C in memory
SUMS, ROWS, WEIGHTS = (0, 1, 2, 3), (4, 5), (6, 7)


def configuration(depth: int) -> bytes:
    """What LDTILECFG reads: the registers' shapes for `depth` consecutive k, at most 64."""
    assert depth % 4 == 0 and depth <= 64
    shapes = {**dict.fromkeys(SUMS, (64, SIDE)), **dict.fromkeys(ROWS, (depth, SIDE))}
    shapes |= dict.fromkeys(WEIGHTS, (64, depth // 4))
    widths, heights = zip(*(shapes[tile] for tile in range(8)), strict=True)
    return struct.pack("<B15x8H16x8B8x", 1, *widths, *heights)  # palette 1, no load to be resumed


def configure(depth: int) -> Any:
    """An operation (): shape this thread's registers for `depth` consecutive k, and clear them."""

    def build(b: Any) -> None:
        data = bytearray(configuration(depth))
        where = cgutils.global_constant(b.module, "tile_shapes", ir.Constant(ir.ArrayType(I8, len(data)), data))
        where.align = 64
        call(b, "llvm.x86.ldtilecfg", ir.VoidType(), b.bitcast(where, I8.as_pointer()))

    return op(void, (), build)


def _release(b: Any) -> None:
    call(b, "llvm.x86.tilerelease", ir.VoidType())


release = op(void, (), _release)


def zero(b: Any, tile: int) -> None:
    call(b, "llvm.x86.tilezero", ir.VoidType(), I8(tile))


def load(b: Any, tile: int, addr: Any, stride: Any) -> None:
    """Row i of the register comes from addr + i * stride."""
    call(b, "llvm.x86.tileloadd64", ir.VoidType(), I8(tile), b.inttoptr(addr, I8.as_pointer()), stride)


def store(b: Any, tile: int, addr: Any) -> None:
    """The rows of the register one after another."""
    call(b, "llvm.x86.tilestored64", ir.VoidType(), I8(tile), b.inttoptr(addr, I8.as_pointer()), I64(64))


def dot(b: Any, sums: int, rows: int, weights: int, unsigned: bool) -> None:
    """sums += rows x weights. Activations are signed bytes, weights signed or unsigned ones."""
    name = "llvm.x86.tdpbsud" if unsigned else "llvm.x86.tdpbssd"
    call(b, name, ir.VoidType(), I8(sums), I8(rows), I8(weights))
