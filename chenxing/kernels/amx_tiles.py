"""Products of one packed tile of weights with many rows of activations on AMX: other instructions, the same integers.

Blocks are unpacked into the bytes that AMX multiplies: the weights as integers, offset and sub-blocks' scales included.
Those of 32 weights are signed bytes. Those of 256 may need more: w = 256 * high + low, with low an unsigned and high a
signed byte; each digit is summed over the whole block in a register of its own, and 256 * (sum of high * x) + (sum of
low * x) is the exact sum that other instruction sets come to. From there on the operations are tiles.py's (law L1).
Activations are read as they lie in memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
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

GROUP = 8  # rows of activations whose sums are in vector registers at a time
DIGIT = 4096  # bytes of scratch for a digit of 256 weights x 16 rows
DIGIT_SUMS = 2 * amx.SUMS_BYTES


@dataclass(frozen=True)
class AMXTile:
    """Kernel functions over one tile; n_bytes, x_bytes, unit, scratch_bytes and unpack are Tile's.

    depth  consecutive k of an instruction: what amx.py's `configure` is to be called with
    rows   function (scratch, count, x, stride, acc, n): n rows of f32x16 at acc, 64 bytes apart, go on. It reads and
           writes whole groups of rows
    """

    n_bytes: int
    x_bytes: int
    unit: int
    scratch_bytes: int
    unpack: Callable
    depth: int
    rows: Callable


def on_amx(tile: Tile) -> AMXTile:
    """For a tile that is made of blocks of integers."""
    if isinstance(tile.blocks, SmallBlocks):
        return _small_blocks(tile, tile.blocks)
    assert isinstance(tile.blocks, SuperBlocks)
    return _super_blocks(tile, tile.blocks)


def _small_blocks(tile: Tile, f: SmallBlocks) -> AMXTile:
    """One instruction for each block of 32 and 16 rows of activations."""
    side, line, sums_at = amx.SIDE, tile.scratch_bytes // tile.unit, tile.scratch_bytes
    quants, minus = f.quants, _minus(f.offset)

    @kernel_inline
    def weights(w):
        return minus(quants(w))

    signed = small_blocks(replace(f, quants=weights, largest=0, offset=0))
    multiply, finish = _products(1, 32, 1, 1), finish_small(f.minimum)
    ld, ld_sums, st = v.load_group(GROUP), _load_sums(1), v.store_group(GROUP)

    @kernel_inline
    def rows(scratch, count, x, stride, acc, n):
        for first in range(0, n, side):
            for i in range(count):
                sums = scratch + sums_at + i * amx.SUMS_BYTES
                multiply(scratch + i * line, x + first * stride + i * L.Q8_BLOCK, stride, sums)
            for r in range(first, min(first + side, n), GROUP):
                y = ld(acc + r * 64, 64)
                for i in range(count):
                    block = scratch + i * line
                    total = ld_sums(scratch + sums_at + i * amx.SUMS_BYTES + (r - first) * 64)
                    d, m = v.ld_f32x16(block + 512), v.ld_f32x16(block + 576)
                    y = finish(y, total, d, m, x + r * stride + i * L.Q8_BLOCK, stride)
                st(acc + r * 64, 64, y)

    scratch_bytes = sums_at + tile.unit * amx.SUMS_BYTES
    return AMXTile(tile.n_bytes, tile.x_bytes, tile.unit, scratch_bytes, signed.unpack, 32, rows)


def _super_blocks(tile: Tile, f: SuperBlocks) -> AMXTile:
    """A block's products stay in the registers, for one or two times 16 rows of activations."""
    side, n_pairs, quants, scales, n_digits = amx.SIDE, 128 // f.sub, f.quants, f.scales, _n_digits(f)
    half, lines = 16 * f.sub, f.n_bytes // n_pairs
    put_even, put_odd = _put_weights(f, 0, n_digits), _put_weights(f, f.sub // 4, n_digits)
    minima, m_at = (f.minima, MIN) if f.minima else (f.scales, D)
    minima_at = n_digits * DIGIT
    d_at = minima_at + 64 * n_pairs
    sums_at = d_at + 128

    @kernel_inline
    def unpack(w, scratch, count):
        for i in range(n_pairs):
            for at in range(0, lines, 64):
                v.prefetch(w + AHEAD + i * lines + at)
            q = quants(w, i)
            sc = scales(w, i)
            put_even(scratch + 2 * i * half, q, dot.both_even(sc))
            put_odd(scratch + (2 * i + 1) * half, q, dot.both_odd(sc))
            v.st_i32x16(scratch + minima_at + i * 64, minima(w, i))
        v.st_f32x16(scratch + d_at, v.ld_f16x16(w))
        v.st_f32x16(scratch + d_at + 64, v.ld_f16x16(w + m_at))

    @kernel_inline
    def minima_sums(scratch, x, stride):
        total = zeros()
        for i in range(n_pairs):
            pairs = v.ld_i32x16(scratch + minima_at + i * 64)
            total = dot.dot_pairs(total, pairs, x + sums_of_x + i * 4, stride)
        return total

    @kernel_inline
    def no_sums(scratch, x, stride):
        return zeros()

    zeros, sums_of_x = v.zeros_i32(GROUP), L.Q8K_SUMS if f.sub == 16 else L.Q8K_SUMS32
    correct, finish = minima_sums if f.minima else no_sums, finish_super(f.minima is not None)
    one_side, two_sides = _products(1, 64, 4, n_digits), _products(2, 64, 4, n_digits)
    ld, ld_sums, st = v.load_group(GROUP), _load_sums(n_digits), v.store_group(GROUP)

    @kernel_inline
    def rows(scratch, count, x, stride, acc, n):
        sums = scratch + sums_at
        d, m = v.ld_f32x16(scratch + d_at), v.ld_f32x16(scratch + d_at + 64)
        for first in range(0, n, 2 * side):
            if n - first > side:
                two_sides(scratch, x + first * stride, stride, sums)
            else:
                one_side(scratch, x + first * stride, stride, sums)
            for r in range(first, min(first + 2 * side, n), GROUP):
                x_at = x + r * stride
                y = ld(acc + r * 64, 64)
                y = finish(y, ld_sums(sums + (r - first) * 64), correct(scratch, x_at, stride), d, m, x_at, stride)
                st(acc + r * 64, 64, y)

    scratch_bytes = sums_at + n_digits * DIGIT_SUMS
    return AMXTile(tile.n_bytes, tile.x_bytes, 1, scratch_bytes, unpack, 64, rows)


def _n_digits(f: SuperBlocks) -> int:
    """Bytes that scale * (q - offset) takes."""
    largest = f.largest_scale * (max(f.largest - f.offset, f.offset) if f.largest else 128)
    assert largest < 1 << 15
    return 1 if largest < 128 else 2


def _products(n_tiles: int, depth: int, n_steps: int, n_digits: int) -> Any:
    """An operation (weights, x, stride, sums): the sums over n_steps * depth consecutive k.

    weights  the packed vectors of each digit, DIGIT bytes from one to the next
    x        n_tiles * 16 rows of activations, `stride` bytes apart
    sums     for each digit n_tiles * 16 rows of i32x16 are written, DIGIT_SUMS bytes from one to the next
    """

    def build(b: Any, weights: Any, x: Any, stride: Any, sums: Any) -> None:
        for register in amx.SUMS[: n_digits * n_tiles]:
            amx.zero(b, register)
        for step in range(n_steps):
            for t in range(n_tiles):
                rows = b.add(v.at(b, x, stride, t * amx.SIDE), v.I64(step * depth))
                amx.load(b, amx.ROWS[t], rows, stride)
                for d in range(n_digits):
                    if t == 0:
                        vectors = b.add(weights, v.I64(d * DIGIT + step * depth * amx.SIDE))
                        amx.load(b, amx.WEIGHTS[d], vectors, v.I64(64))
                    sums_of = amx.SUMS[d * n_tiles + t]
                    amx.dot(b, sums_of, amx.ROWS[t], amx.WEIGHTS[d], unsigned=d + 1 < n_digits)
        for d in range(n_digits):
            for t in range(n_tiles):
                to = b.add(sums, v.I64(d * DIGIT_SUMS + t * amx.SUMS_BYTES))
                amx.store(b, amx.SUMS[d * n_tiles + t], to)

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


def _load_sums(n_digits: int) -> Any:
    """An operation (addr): the sums of a group of rows, 256 * high + low if there are two digits."""

    @intrinsic
    def ld(typingctx: Any, addr: Any) -> Any:
        ty = v.group(v.i32x16, GROUP)

        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            totals = []
            for t in range(GROUP):
                total = v.const(v.i32x16.ll, 0)
                for d in reversed(range(n_digits)):
                    digit = v.load(b, b.add(a[0], v.I64(d * DIGIT_SUMS + t * 64)), v.i32x16.ll)
                    total = b.add(b.shl(total, v.const(total.type, 8)), digit)
                totals.append(total)
            return c.make_tuple(b, ty, totals)

        return ty(v.i64), cg

    return ld
