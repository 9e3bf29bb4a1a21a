"""The vocabulary of quantised products: exact integer dot products, what unpacks their operands, pairs of scales.

Weights come as `u8x64`: 16 rows of 4 consecutive k. Activations are int8 in [-127, 127], row after row, and are
broadcast 4 bytes at a time. dot_sums.py has the instructions. A kernel that sums signed 8-bit weights pays for the 128
that vpdpbusd adds to them: it starts from `signed_start`, or takes `signed_offset` away.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from chenxing.kernels.dot_sums import madd, on_arm, sums, sums_of_stored, vec
from chenxing.kernels.simd import (
    I8,
    I16,
    I32,
    I64,
    Target,
    at,
    by_parts,
    call,
    const,
    group,
    group_op,
    i32x16,
    load,
    op,
    shuffle,
    splat,
    store,
    u8x64,
)


def _dot(n: int, first: int, largest: int) -> tuple[Any, Any]:
    """The operation without and with a scale."""

    def build(acc: Any, c: Any, b: Any, accs: Any, weights: Any, scale: Any, x: Any, stride: Any) -> Any:
        groups = [b.extract_value(accs, t) for t in range(acc.count)]
        vectors = [b.extract_value(weights, first + j) for j in range(n)]
        return c.make_tuple(b, acc, sums(b, groups, vectors, scale, x, stride, largest))

    @intrinsic
    def dot(typingctx: Any, acc: Any, ws: Any, x: Any, stride: Any) -> Any:
        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            return build(acc, c, b, a[0], a[1], None, a[2], a[3])

        return acc(acc, ws, x, stride), cg

    @intrinsic
    def scaled(typingctx: Any, acc: Any, ws: Any, scale: Any, x: Any, stride: Any) -> Any:
        return acc(acc, ws, scale, x, stride), lambda c, b, s, a: build(acc, c, b, *a)

    return dot, scaled


def dot_unsigned(n: int, largest: int) -> Any:
    """An operation (acc, ws, x, stride): acc[t] += sum over n vectors ws[j] (values 0..largest, at most 127) of the
    products with the 4 activations at x + t * stride + 4 j."""
    assert 0 < largest <= 127  # as a signed byte it is the same number: sdot and smull read it as one
    return _dot(n, 0, largest)[0]


def dot_signed(n: int) -> Any:
    """The same for signed weights -128..127. The sums must start from `signed_start`."""
    return _dot(n, 0, 0)[0]


def absolutes_pay() -> bool:
    """Whether `dot_stored` is faster than `dot_signed` for many rows of activations."""
    return Target.isa.dot == "maddubs"


def dot_stored(n: int) -> Any:
    """An operation (acc, ws, x, stride): `dot_signed` of n vectors at ws, whose `absolutes` lie behind them."""

    @intrinsic
    def dot(typingctx: Any, acc: Any, ws: Any, x: Any, stride: Any) -> Any:
        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            accs = [b.extract_value(a[0], t) for t in range(acc.count)]
            return c.make_tuple(b, acc, sums_of_stored(b, accs, a[1], n, a[2], a[3]))

        return acc(acc, ws, x, stride), cg

    return dot


def dot_scaled(n: int, first: int, largest: int) -> Any:
    """An operation (acc, ws, scale, x, stride): acc[t] += scale * (the sum over ws[first], ... ws[first + n - 1]).

    scale: -128..127, in both i16 halves of each lane. largest 0: signed weights, and `signed_offset` is to be taken
    away afterwards.
    """
    return _dot(n, first, largest)[1]


def signed_offset() -> int:
    """What `dot_scaled` adds to signed weights on this instruction set."""
    return 128 if Target.isa.dot.startswith("vnni") else 0


@intrinsic
def signed_start(typingctx: Any, like: Any, sums: Any, stride: Any) -> Any:
    """Where sums of signed weights start: 0, or -128 x the activations' sum (i32 at sums + t * stride) for vnni."""

    def build(b: Any, t: int, like: Any, sums: Any, stride: Any) -> Any:
        if not Target.isa.dot.startswith("vnni"):
            return const(i32x16.ll, 0)
        return splat(b, b.mul(load(b, at(b, sums, stride, t), I32), I32(-128)), i32x16.ll)

    return group_op(build)(typingctx, like, sums, stride)


def offset_start(offset: int) -> Any:
    """An operation (like, sums, stride): -offset x the activations' sum, for weights stored plus offset."""

    @intrinsic
    def start(typingctx: Any, like: Any, sums: Any, stride: Any) -> Any:
        def build(b: Any, t: int, like: Any, sums: Any, stride: Any) -> Any:
            return splat(b, b.mul(load(b, at(b, sums, stride, t), I32), I32(-offset)), i32x16.ll)

        return group_op(build)(typingctx, like, sums, stride)

    return start


def _madd_pairs(b: Any, x: Any, y: Any) -> Any:
    """x0 * y0 + x1 * y1 of the two i16 in each lane."""

    def half(v: Any) -> Any:
        return b.bitcast(v, vec(I16, v.type.count * 32))

    return by_parts(b, Target.isa.bits, lambda p, q: madd(b, half(p), half(q)), x, y)


@intrinsic
def dot_pairs(typingctx: Any, acc: Any, pairs: Any, x: Any, stride: Any) -> Any:
    """acc[t] += a0 * x0 + a1 * x1 in i32: pairs holds two i16 a lane, x0 and x1 are the i16 at x + t * stride."""

    def build(b: Any, t: int, acc: Any, pairs: Any, x: Any, stride: Any) -> Any:
        both = splat(b, load(b, at(b, x, stride, t), I32), i32x16.ll)
        return b.add(acc, _madd_pairs(b, pairs, both))

    return group_op(build)(typingctx, acc, pairs, x, stride)


# pairs of i16 a lane: bytes of two sub-blocks side by side, and each of the two in both halves
_B32, _S32 = ir.VectorType(I8, 32), ir.VectorType(I16, 32)


def _pairs(select: list[int]) -> Callable:
    return lambda b, v: b.bitcast(shuffle(b, b.bitcast(v, _S32), select), i32x16.ll)


both_even = op(i32x16, (i32x16,), _pairs([i & ~1 for i in range(32)]))
both_odd = op(i32x16, (i32x16,), _pairs([i | 1 for i in range(32)]))


def _at(first: int, of: Callable) -> Any:
    """The operation (block, i): 16 rows of 2 bytes at block + first + 32 i, made pairs of i16 by `of`."""

    def build(b: Any, w: Any, i: Any) -> Any:
        return b.bitcast(of(b, load(b, b.add(w, b.add(b.shl(i, I64(5)), I64(first))), _B32)), i32x16.ll)

    return op(i32x16, (types.int64, types.int64), build)


def pairs_at(first: int) -> Any:
    """An operation (block, i): the i-th of the vectors at block + first, 16 rows of 2 signed bytes, as pairs of i16."""
    return _at(first, lambda b, v: b.sext(v, _S32))


def bit_pairs_at(first: int, shift: int, mask: int) -> Any:
    """The same of unsigned bytes, of which it takes (byte >> shift) & mask."""
    return _at(first, lambda b, v: b.and_(b.lshr(b.zext(v, _S32), const(_S32, shift)), const(_S32, mask)))


# ---- bytes ----


def vectors(n: int) -> Any:
    """An operation (addr): a group of n consecutive vectors."""

    @intrinsic
    def ld(typingctx: Any, addr: Any) -> Any:
        ty = group(u8x64, n)

        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            return c.make_tuple(
                b, ty, [load(b, b.add(a[0], ir.Constant(a[0].type, 64 * j)), u8x64.ll) for j in range(n)]
            )

        return ty(types.int64), cg

    return ld


def store_vectors(n: int) -> Any:
    """An operation (addr, group of n): the vectors one after another."""

    @intrinsic
    def st(typingctx: Any, addr: Any, values: Any) -> Any:
        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            for j in range(n):
                store(b, b.add(a[0], ir.Constant(a[0].type, 64 * j)), b.extract_value(a[1], j))
            return c.get_dummy_value()

        return types.void(types.int64, values), cg

    return st


def _bytewise(build: Callable) -> Any:
    """An operation on one vector or on each of a group: build(b, vector)."""

    @intrinsic
    def run(typingctx: Any, v: Any) -> Any:
        if v == u8x64:
            return u8x64(u8x64), lambda c, b, s, a: build(b, a[0])
        return group_op(lambda b, t, v: build(b, v))(typingctx, v)

    return run


def _moved(b: Any, v: Any, source: int, mask: int, target: int) -> Any:
    """Every byte's bits `mask` at bit `source`, moved to bit `target`."""
    h = v if on_arm() else b.bitcast(v, ir.VectorType(I16, 32))  # x86 has no shifts of bytes
    if target > source:
        h = b.shl(h, const(h.type, target - source))
    elif target < source:
        h = b.lshr(h, const(h.type, source - target))
    # if the shift ran over 16 bits, the mask takes off what came from the neighbour
    return b.and_(b.bitcast(h, u8x64.ll), const(u8x64.ll, mask << target))


def bits_at(shift: int, mask: int) -> Any:
    """An operation: every byte's bits (v >> shift) & mask, of a vector or a group."""
    return _bytewise(lambda b, v: _moved(b, v, shift, mask, 0))


absolutes = _bytewise(lambda b, v: call(b, "llvm.abs.v64i8", v.type, v, ir.Constant(ir.IntType(1), 0)))


def fields(width: int, n: int) -> Any:
    """An operation: a vector -> a group of n, the j-th of which holds every byte's j-th field of `width` bits."""
    assert width * n <= 8

    @intrinsic
    def split(typingctx: Any, v: Any) -> Any:
        ty = group(u8x64, n)

        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            return c.make_tuple(b, ty, [_moved(b, a[0], width * j, (1 << width) - 1, 0) for j in range(n)])

        return ty(u8x64), cg

    return split


def put_fields(width: int, first: int, target: int) -> Any:
    """An operation (group, v): vector j | (every byte's field first + j of v, `width` bits wide, moved to `target`)."""
    mask = (1 << width) - 1

    @intrinsic
    def put(typingctx: Any, vs: Any, v: Any) -> Any:
        def build(b: Any, j: int, low: Any, high: Any) -> Any:
            return b.or_(low, _moved(b, high, width * (first + j), mask, target))

        return group_op(build)(typingctx, vs, v)

    return put


def lookup(table: tuple[int, ...]) -> Any:
    """An operation: every byte 0..15 -> the signed byte table[v], of a vector or a group."""
    assert len(table) == 16

    def build(b: Any, v: Any) -> Any:
        bits = Target.isa.bits
        if on_arm():
            values = ir.Constant(vec(I8, 128), list(table))
            return by_parts(b, 128, lambda p: call(b, "llvm.aarch64.neon.tbl1.v16i8", p.type, values, p), v)
        if bits == 128:  # no byte shuffle before SSSE3
            out = const(u8x64.ll, 0)
            for i, value in enumerate(table):
                hit = b.icmp_signed("==", v, const(u8x64.ll, i))
                out = b.select(hit, const(u8x64.ll, value), out)
            return out
        name = {256: "llvm.x86.avx2.pshuf.b", 512: "llvm.x86.avx512.pshuf.b.512"}[bits]
        values = ir.Constant(vec(I8, bits), list(table) * (bits // 128))
        return by_parts(b, bits, lambda p: call(b, name, p.type, values, p), v)

    return _bytewise(build)
