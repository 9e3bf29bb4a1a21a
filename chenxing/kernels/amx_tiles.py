"""Products of one packed tile of weights with many rows of activations on AMX: other instructions, the same integers.

Blocks are unpacked into the bytes that AMX multiplies: the weights as integers, offset and sub-blocks' scales included.
Those of 32 weights are signed bytes. Those of 256 may need more: w = 256 * high + low, with low an unsigned and high a
signed byte; each digit is summed over the whole block in a register of its own, and 256 * (sum of high * x) + (sum of
low * x) is the exact sum that other instruction sets come to. From there on the operations are tiles.py's (law L1).
Activations are read as they lie in memory.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from numba.extending import intrinsic

from chenxing.kernels import amx
from chenxing.kernels import layout as L
from chenxing.kernels import simd as v
from chenxing.kernels import simd_dot as dot
from chenxing.kernels.dot_sums import i16_pairs
from chenxing.kernels.simd import kernel_inline
from chenxing.kernels.tiles import (
    AHEAD,
    MIN,
    D,
    SmallBlocks,
    SuperBlocks,
    Tile,
    finish_small,
    finish_super,
    small_blocks,
)

TOGETHER = 8  # rows of activations whose sums are in registers at a time
DIGIT = 4096  # bytes of scratch that a digit of 256 weights x 16 rows takes


def depth(tile: Tile) -> int:
    """The consecutive k of an instruction, to configure the registers for."""
    return 32 if isinstance(tile.blocks, SmallBlocks) else 64


def on_amx(tile: Tile) -> Tile:
    """The tile with `unpack` and `gemm` for AMX, in groups of 16 or 32 rows of activations."""
    if isinstance(tile.blocks, SmallBlocks):
        return _small_blocks(tile, tile.blocks)
    assert isinstance(tile.blocks, SuperBlocks)
    return _super_blocks(tile, tile.blocks)


def _small_blocks(tile: Tile, f: SmallBlocks) -> Tile:
    quants, minus = f.quants, _minus(f.offset)
    unit, line, sums_at = tile.unit, tile.scratch_bytes // tile.unit, tile.scratch_bytes

    @kernel_inline
    def weights(w):
        return minus(quants(w))

    signed = small_blocks(replace(f, quants=weights, largest=0, offset=0))

    def gemm(n):
        multiply, finish = _products(n // amx.SIDE, 32, 1, 1), finish_small(f.minimum)
        ld, ld_sums, st = v.load_group(TOGETHER), _load_sums(n, 1), v.store_group(TOGETHER)

        @kernel_inline
        def run(scratch, count, x, stride, acc_at):
            for i in range(count):
                multiply(scratch + i * line, x + i * L.Q8_BLOCK, stride, scratch + sums_at + i * n * 64)
            for r in range(0, n, TOGETHER):
                acc = ld(acc_at + r * 64, 64)
                for i in range(count):
                    block = scratch + i * line
                    total = ld_sums(scratch + sums_at + (i * n + r) * 64)
                    d, m = v.ld_f32x16(block + 512), v.ld_f32x16(block + 576)
                    acc = finish(acc, total, d, m, x + r * stride + i * L.Q8_BLOCK, stride)
                st(acc_at + r * 64, 64, acc)

        return run

    scratch_bytes = sums_at + unit * 2 * amx.SUMS_BYTES
    return replace(tile, unpack=signed.unpack, scratch_bytes=scratch_bytes, gemm=gemm)


def _super_blocks(tile: Tile, f: SuperBlocks) -> Tile:
    sub, n_bytes, quants, scales = f.sub, f.n_bytes, f.quants, f.scales
    steps, n_pairs = sub // 4, 128 // sub
    lines = n_bytes // n_pairs
    largest = f.largest_scale * max(f.largest - f.offset, f.offset) if f.largest else f.largest_scale * 128
    n_digits = 1 if largest < 128 else 2
    assert largest < 1 << 15
    put_even, put_odd = _put_weights(f, 0, n_digits), _put_weights(f, steps, n_digits)
    minima, m_at = (f.minima, MIN) if f.minima else (f.scales, D)
    minima_at = n_digits * DIGIT
    d_at = minima_at + 64 * n_pairs
    sums_at = d_at + 128
    has_minima = f.minima is not None

    @kernel_inline
    def unpack(w, scratch, count):
        for i in range(n_pairs):
            for at in range(0, lines, 64):
                v.prefetch(w + AHEAD + i * lines + at)
            q = quants(w, i)
            sc = scales(w, i)
            put_even(scratch + i * 128 * steps, q, dot.both_even(sc))
            put_odd(scratch + i * 128 * steps + 64 * steps, q, dot.both_odd(sc))
            if has_minima:
                v.st_i32x16(scratch + minima_at + i * 64, minima(w, i))
        v.st_f32x16(scratch + d_at, v.ld_f16x16(w))
        v.st_f32x16(scratch + d_at + 64, v.ld_f16x16(w + m_at))

    sums_of_x = L.Q8K_SUMS if sub == 16 else L.Q8K_SUMS32

    def gemm(n):
        tiles = n // amx.SIDE
        multiply, finish = _products(tiles, 64, 4, n_digits), finish_super(has_minima)
        ld, ld_sums, st = v.load_group(TOGETHER), _load_sums(n, n_digits), v.store_group(TOGETHER)
        zeros = v.zeros_i32(TOGETHER)

        @kernel_inline
        def run(scratch, count, x, stride, acc_at):
            sums = scratch + sums_at
            multiply(scratch, x, stride, sums)
            d, m = v.ld_f32x16(scratch + d_at), v.ld_f32x16(scratch + d_at + 64)
            for r in range(0, n, TOGETHER):
                corrected = zeros()
                if has_minima:
                    for i in range(n_pairs):
                        pairs = v.ld_i32x16(scratch + minima_at + i * 64)
                        corrected = dot.dot_pairs(corrected, pairs, x + sums_of_x + i * 4, stride)
                acc = finish(ld(acc_at + r * 64, 64), ld_sums(sums + r * 64), corrected, d, m, x, stride)
                st(acc_at + r * 64, 64, acc)
                x += TOGETHER * stride

        return run

    scratch_bytes = sums_at + 2 * n_digits * amx.SUMS_BYTES
    return replace(tile, unit=1, scratch_bytes=scratch_bytes, unpack=unpack, gemm=gemm)


def _products(n_tiles: int, depth: int, n_steps: int, n_digits: int) -> Any:
    """An operation (weights, x, stride, sums): the sums over n_steps * depth consecutive k.

    weights  per digit DIGIT bytes apart: the packed vectors
    x        n_tiles * 16 rows of activations, `stride` bytes apart
    sums     [n_digits][n_tiles * 16 rows of activations] of i32x16 are written
    """

    def build(b: Any, weights: Any, x: Any, stride: Any, sums: Any) -> None:
        registers = amx.SUMS[: n_digits * n_tiles]
        for register in registers:
            amx.zero(b, register)
        for step in range(n_steps):
            for t in range(n_tiles):
                rows = b.add(v.at(b, x, stride, t * amx.SIDE), v.I64(step * depth))
                amx.load(b, amx.ROWS[t], rows, stride)
                for d in range(n_digits):
                    if t == 0:
                        vectors = b.add(weights, v.I64(d * DIGIT + step * depth * amx.SIDE))
                        amx.load(b, amx.WEIGHTS[d], vectors, v.I64(64))
                    amx.dot(b, registers[d * n_tiles + t], amx.ROWS[t], amx.WEIGHTS[d], unsigned=d + 1 < n_digits)
        for i, register in enumerate(registers):
            amx.store(b, register, b.add(sums, v.I64(i * amx.SUMS_BYTES)))

    return v.op(v.void, (v.i64,) * 4, build)


def _minus(offset: int) -> Callable:
    """An operation (group of bytes): every byte less the offset."""

    @intrinsic
    def minus(typingctx: Any, vs: Any) -> Any:
        return v.group_op(lambda b, t, q: b.sub(q, v.const(q.type, offset)))(typingctx, vs)

    return minus


def _put_weights(f: SuperBlocks, first: int, n_digits: int) -> Any:
    """An operation (addr, quants, scale): a sub-block's scale * (q - offset) to addr, its second digit DIGIT bytes on.

    quants  sub / 4 vectors from the group's `first` on
    scale   in both i16 halves of each lane
    """

    @intrinsic
    def put(typingctx: Any, addr: Any, quants: Any, scale: Any) -> Any:
        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            for j in range(f.sub // 4):
                q = b.extract_value(a[1], first + j)
                for d, digit in enumerate(_digits(b, q, a[2], f)[:n_digits]):
                    v.store(b, b.add(a[0], v.I64(d * DIGIT + 64 * j)), digit)
            return c.get_dummy_value()

        return v.void(v.i64, quants, scale), cg

    return put


def _digits(b: Any, q: Any, scale: Any, f: SuperBlocks) -> tuple[Any, Any]:
    """The low and the high bytes of scale * (q - offset), in the order of q."""
    even, odd = i16_pairs(b, q, signed=f.largest == 0)
    wide = even.type
    factor, offset = b.bitcast(scale, wide), v.const(wide, f.offset)
    even, odd = (b.mul(b.sub(half, offset), factor) for half in (even, odd))
    byte, eight = v.const(wide, 0xFF), v.const(wide, 8)
    low = b.or_(b.and_(even, byte), b.shl(odd, eight))
    high = b.or_(b.lshr(even, eight), b.and_(odd, v.const(wide, -256)))
    return b.bitcast(low, q.type), b.bitcast(high, q.type)


def _load_sums(n: int, n_digits: int) -> Any:
    """An operation (addr): a group of sums, the second digit's n rows further, as 256 * high + low."""

    @intrinsic
    def ld(typingctx: Any, addr: Any) -> Any:
        ty = v.group(v.i32x16, TOGETHER)

        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            out = []
            for t in range(TOGETHER):
                digits = [v.load(b, b.add(a[0], v.I64((d * n + t) * 64)), v.i32x16.ll) for d in range(n_digits)]
                total = digits.pop()
                while digits:
                    total = b.add(b.shl(total, v.const(total.type, 8)), digits.pop())
                out.append(total)
            return c.make_tuple(b, ty, out)

        return ty(v.i64), cg

    return ld
