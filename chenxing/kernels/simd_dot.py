"""Exact integer dot products of packed 8-bit weights with 8-bit activations, by instruction set.

Weights come as `u8x64`: 16 rows of 4 consecutive k. Activations are int8 in [-127, 127], row after row, and are
broadcast 4 bytes at a time. Sums are exact in i32, so every lowering gives the same integers (law L1):
    vnni      vpdpbusd: unsigned x signed, 4 products a lane
    maddubs   vpmaddubsw into i16, as many products as provably fit, then vpmaddwd with ones
    madd      widened to i16, pmaddwd
    plain     the same in LLVM's own terms, for any CPU
A kernel that sums signed 8-bit weights starts from `signed_start`, which pays for the +128 that vpdpbusd needs.
Over 300 lines because an operation and its lowerings belong together, and with them what unpacks their operands.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.binding as ll
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from chenxing.kernels.simd import (
    I8,
    I16,
    I32,
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


def _vec(elem: ir.Type, bits: int) -> ir.VectorType:
    return ir.VectorType(elem, bits // elem.width)


def _bcast4(b: Any, addr: Any, bits: int) -> Any:
    """The 4 bytes at addr in every lane of a vector of `bits`, as bytes."""
    return b.bitcast(splat(b, load(b, addr, I32), _vec(I32, bits)), _vec(I8, bits))


def _i16_pairs(b: Any, v: Any, signed: bool) -> tuple[Any, Any]:
    """Even and odd bytes, widened to i16."""
    h = b.bitcast(v, _vec(I16, v.type.count * 8))
    eight = const(h.type, 8)
    if signed:
        return b.ashr(b.shl(h, eight), eight), b.ashr(h, eight)
    return b.and_(h, const(h.type, 0xFF)), b.lshr(h, eight)


def _madd(b: Any, x: Any, y: Any) -> Any:
    """i16 x i16, neighbours added: i32."""
    bits = x.type.count * 16
    if Target.isa.dot == "plain":
        wide = ir.VectorType(I32, x.type.count)
        products = b.mul(b.sext(x, wide), b.sext(y, wide))
        even = list(range(0, x.type.count, 2))
        return b.add(shuffle(b, products, even), shuffle(b, products, [i + 1 for i in even]))
    name = {128: "llvm.x86.sse2.pmadd.wd", 256: "llvm.x86.avx2.pmadd.wd", 512: "llvm.x86.avx512.pmaddw.d.512"}[bits]
    return call(b, name, _vec(I32, bits), x, y)


def _vpdpbusd(b: Any, acc: Any, u: Any, s: Any) -> Any:
    if ll.llvm_version_info[0] < 22:  # operands were typed as vectors of i32 then
        u, s = b.bitcast(u, acc.type), b.bitcast(s, acc.type)
    return call(b, f"llvm.x86.avx512.vpdpbusd.{acc.type.count * 32}", acc.type, acc, u, s)


def _products(b: Any, u: Any, s: Any, signed: bool) -> Any:
    """maddubs of weights u and activations s: sums of two neighbours as i16, saturating, which callers rule out."""
    if signed:  # |u| x (s with u's sign): at most 128 * 127 * 2 = 32512
        s = call(b, "llvm.x86.avx2.psign.b", u.type, s, u)
        u = call(b, "llvm.abs.v32i8", u.type, u, ir.Constant(ir.IntType(1), 0))
    return call(b, "llvm.x86.avx2.pmadd.ub.sw", _vec(I16, 256), u, s)


def _add_products(b: Any, acc: Any, w: Any, x: Any, signed: bool) -> Any:
    """acc + the products of 4 consecutive k, in i32: one hardware part of weights, broadcast activations."""
    if Target.isa.dot.startswith("vnni"):
        return _vpdpbusd(b, acc, b.xor(w, const(w.type, -128)) if signed else w, x)
    we, wo = _i16_pairs(b, w, signed)
    xe, xo = _i16_pairs(b, x, True)
    return b.add(acc, b.add(_madd(b, we, xe), _madd(b, wo, xo)))


def _cut(b: Any, v: Any, i: int) -> Any:
    """Hardware part i of a logical vector."""
    n = v.type.count * Target.isa.bits // 512
    return shuffle(b, v, list(range(i * n, (i + 1) * n))) if n < v.type.count else v


def _joined(b: Any, parts: list[Any]) -> Any:
    while len(parts) > 1:
        size = parts[0].type.count * 2
        parts = [shuffle(b, p, list(range(size)), q) for p, q in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _sums(b: Any, accs: list[Any], ws: list[Any], scale: Any, x_at: Callable, signed: bool, per: int) -> list[Any]:
    """accs[t] + scale * (sums of ws times the activations at x_at(t, j)); scale: i16 pairs, or None for 1.

    Two hardware parts at a time share a broadcast, so that few registers live at once.
    """
    bits = Target.isa.bits
    n_parts = 512 // bits
    out: list[list[Any]] = [[] for _ in accs]
    for first in range(0, n_parts, 2):
        parts = range(first, min(first + 2, n_parts))
        totals = [[_cut(b, acc, i) for i in parts] for acc in accs]
        scales = [None if scale is None else _cut(b, scale, i) for i in parts]
        sum_up = _sum_maddubs if Target.isa.dot == "maddubs" else _sum_i32
        totals = sum_up(b, totals, [[_cut(b, w, i) for i in parts] for w in ws], scales, x_at, signed, per)
        for t, total in enumerate(totals):
            out[t] += total
    return [_joined(b, parts) for parts in out]


def _pinned(b: Any, v: Any) -> Any:
    """v, through an empty assembly that LLVM does not see through: it would regroup a chain of sums into a tree, whose
    values do not fit in sixteen registers."""
    return b.asm(ir.FunctionType(v.type, [v.type]), "", "=x,0", [v], False)


def _sum_maddubs(
    b: Any, totals: list, ws: list, scales: list, x_at: Callable, signed: bool, per: int
) -> list[list[Any]]:
    """`per` products are added in i16; vpmaddwd then applies the scale and makes i32 of two neighbours."""
    for first in range(0, len(ws), per):
        sums: list[list[Any]] = [[None] * len(scales) for _ in totals]
        for j in range(first, min(first + per, len(ws))):
            for t in range(len(totals)):
                x = _bcast4(b, x_at(t, j), 256)
                for i, w in enumerate(ws[j]):
                    p = _products(b, w, x, signed)
                    sums[t][i] = p if sums[t][i] is None else _pinned(b, b.add(sums[t][i], p))
        for t, total in enumerate(totals):
            for i, scale in enumerate(scales):
                factor = const(_vec(I16, 256), 1) if scale is None else b.bitcast(scale, _vec(I16, 256))
                total[i] = b.add(total[i], _madd(b, sums[t][i], factor))
    return totals


def _sum_i32(b: Any, totals: list, ws: list, scales: list, x_at: Callable, signed: bool, per: int) -> list[list[Any]]:
    """Sums in i32, times the scale."""
    for t, total in enumerate(totals):
        for i, scale in enumerate(scales):
            acc = total[i] if scale is None else const(total[i].type, 0)
            for j, w in enumerate(ws):
                acc = _add_products(b, acc, w[i], _bcast4(b, x_at(t, j), Target.isa.bits), signed)
            if scale is not None:
                sixteen = const(acc.type, 16)
                acc = b.add(total[i], b.mul(acc, b.ashr(scale, sixteen)))
            total[i] = acc
    return totals


def _dot(n: int, first: int, signed: bool, per: int, scaled: bool) -> Any:
    def build(acc: Any, ws: Any, c: Any, b: Any, accs: Any, weights: Any, scale: Any, x: Any, stride: Any) -> Any:
        groups = [b.extract_value(accs, t) for t in range(acc.count)]
        vectors = [b.extract_value(weights, first + j) for j in range(n)]

        def x_at(t: int, j: int) -> Any:
            return b.add(at(b, x, stride, t), ir.Constant(x.type, 4 * j))

        return c.make_tuple(b, acc, _sums(b, groups, vectors, scale, x_at, signed, per))

    @intrinsic
    def dot(typingctx: Any, acc: Any, ws: Any, x: Any, stride: Any) -> Any:
        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            return build(acc, ws, c, b, a[0], a[1], None, a[2], a[3])

        return acc(acc, ws, x, stride), cg

    @intrinsic
    def scaled_dot(typingctx: Any, acc: Any, ws: Any, scale: Any, x: Any, stride: Any) -> Any:
        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            return build(acc, ws, c, b, *a)

        return acc(acc, ws, scale, x, stride), cg

    return scaled_dot if scaled else dot


def _together(largest: int) -> int:
    """How many products of two neighbours fit in i16 for weights 0..largest; 1 for signed ones."""
    return max(1, 32767 // (largest * 127 * 2)) if largest else 1


def dot_unsigned(n: int, largest: int) -> Any:
    """An operation (acc, ws, x, stride): acc[t] += sum over n vectors ws[j] (values 0..largest, at most 128) of the
    products with the 4 activations at x + t * stride + 4 j."""
    assert 0 < largest <= 128
    return _dot(n, 0, False, _together(largest), False)


def dot_signed(n: int) -> Any:
    """The same for signed weights -128..127. The sums must start from `signed_start`."""
    return _dot(n, 0, True, 1, False)


def dot_scaled(n: int, first: int, largest: int) -> Any:
    """An operation (acc, ws, scale, x, stride): acc[t] += scale * (the sum over ws[first], ... ws[first + n - 1]).

    scale: -128..127, in both i16 halves of each lane. largest 0: signed weights, and `signed_offset` is to be taken
    away afterwards.
    """
    return _dot(n, first, largest == 0, _together(largest), True)


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
        return b.bitcast(v, _vec(I16, v.type.count * 32))

    return by_parts(b, Target.isa.bits, lambda p, q: _madd(b, half(p), half(q)), x, y)


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


ld_i8_pairs = op(i32x16, (types.int64,), lambda b, p: b.bitcast(b.sext(load(b, p, _B32), _S32), i32x16.ll))
both_even = op(i32x16, (i32x16,), _pairs([i & ~1 for i in range(32)]))
both_odd = op(i32x16, (i32x16,), _pairs([i | 1 for i in range(32)]))


def ld_bits_pairs(shift: int, mask: int) -> Any:
    """An operation (addr): 16 rows of 2 bytes as pairs of i16, each (byte >> shift) & mask."""

    def build(b: Any, p: Any) -> Any:
        h = b.zext(load(b, p, _B32), _S32)
        return b.bitcast(b.and_(b.lshr(h, const(_S32, shift)), const(_S32, mask)), i32x16.ll)

    return op(i32x16, (types.int64,), build)


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
    h = b.bitcast(v, ir.VectorType(I16, 32))
    if target > source:
        h = b.shl(h, const(h.type, target - source))
    elif target < source:
        h = b.lshr(h, const(h.type, source - target))
    # the shift ran over 16 bits: the mask takes off what came from the neighbour
    return b.and_(b.bitcast(h, u8x64.ll), const(u8x64.ll, mask << target))


def bits_at(shift: int, mask: int) -> Any:
    """An operation: every byte's bits (v >> shift) & mask, of a vector or a group."""
    return _bytewise(lambda b, v: _moved(b, v, shift, mask, 0))


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
        if bits == 128:  # no byte shuffle before SSSE3
            out = const(u8x64.ll, 0)
            for i, value in enumerate(table):
                hit = b.icmp_signed("==", v, const(u8x64.ll, i))
                out = b.select(hit, const(u8x64.ll, value), out)
            return out
        name = {256: "llvm.x86.avx2.pshuf.b", 512: "llvm.x86.avx512.pshuf.b.512"}[bits]
        values = ir.Constant(_vec(I8, bits), list(table) * (bits // 128))
        return by_parts(b, bits, lambda p: call(b, name, p.type, values, p), v)

    return _bytewise(build)
