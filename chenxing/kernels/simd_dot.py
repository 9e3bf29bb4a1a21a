"""Exact integer dot products of packed 8-bit weights with 8-bit activations, by instruction set.

Weights come as `u8x64`: 16 rows of 4 consecutive k. Activations are int8 in [-127, 127], row after row, and are
broadcast 4 bytes at a time. Sums are exact in i32, so every lowering gives the same integers (law L1):
    vnni      vpdpbusd: unsigned x signed, 4 products a lane
    maddubs   vpmaddubsw into i16, as many products as provably fit, then vpmaddwd with ones
    madd      widened to i16, pmaddwd
A kernel that sums signed 8-bit weights starts from `signed_start`, which pays for the +128 that vpdpbusd needs.
"""

from typing import Any

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
    group_op,
    i32x16,
    load,
    op,
    shuffle,
    splat,
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
    name = {128: "llvm.x86.sse2.pmadd.wd", 256: "llvm.x86.avx2.pmadd.wd", 512: "llvm.x86.avx512.pmaddw.d.512"}[bits]
    return call(b, name, _vec(I32, bits), x, y)


def _vpdpbusd(b: Any, acc: Any, u: Any, s: Any) -> Any:
    bits = acc.type.count * 32
    return call(b, f"llvm.x86.avx512.vpdpbusd.{bits}", acc.type, acc, u, s)


def _sum_part(b: Any, acc: Any, ws: list, xs: list, signed: bool, per: int) -> Any:
    """acc + the products of one hardware part: weights ws, broadcast activations xs."""
    dot = Target.isa.dot
    if dot.startswith("vnni"):
        flip = const(ws[0].type, -128)
        for w, x in zip(ws, xs, strict=True):
            acc = _vpdpbusd(b, acc, b.xor(w, flip) if signed else w, x)
        return acc
    if dot == "madd":
        for w, x in zip(ws, xs, strict=True):
            we, wo = _i16_pairs(b, w, signed)
            xe, xo = _i16_pairs(b, x, True)
            acc = b.add(acc, b.add(_madd(b, we, xe), _madd(b, wo, xo)))
        return acc
    ones = const(_vec(I16, 256), 1)
    for first in range(0, len(ws), per):
        total = None
        for w, x in zip(ws[first : first + per], xs[first : first + per], strict=True):
            if signed:  # |w| x (x with w's sign): at most 128 * 127 * 2 = 32512 in a pair
                u = call(b, "llvm.abs.v32i8", w.type, w, ir.Constant(ir.IntType(1), 0))
                x = call(b, "llvm.x86.avx2.psign.b", w.type, x, w)
            else:
                u = w
            p = call(b, "llvm.x86.avx2.pmadd.ub.sw", _vec(I16, 256), u, x)
            total = p if total is None else b.add(total, p)
        acc = b.add(acc, _madd(b, total, ones))
    return acc


def _dot(n: int, signed: bool, per: int) -> Any:
    @intrinsic
    def dot(typingctx: Any, acc: Any, ws: Any, x: Any, stride: Any) -> Any:
        if not isinstance(acc, types.UniTuple) or ws.count != n:
            return None

        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            accs = [b.extract_value(a[0], t) for t in range(acc.count)]
            weights = [b.extract_value(a[1], j) for j in range(n)]
            bits = Target.isa.bits
            parts: list[list[Any]] = [[] for _ in accs]
            for i in range(512 // bits):  # part by part, so that few registers live at a time
                rows = list(range(i * bits // 32, (i + 1) * bits // 32))
                bytes_ = list(range(i * bits // 8, (i + 1) * bits // 8))
                ws_part = [shuffle(b, w, bytes_) for w in weights]
                for t, v in enumerate(accs):
                    xs = [_bcast4(b, b.add(at(b, a[2], a[3], t), ir.Constant(a[2].type, 4 * j)), bits) for j in range(n)]
                    parts[t].append(_sum_part(b, shuffle(b, v, rows), ws_part, xs, signed, per))
            out = []
            for p in parts:
                while len(p) > 1:
                    size = p[0].type.count * 2
                    p = [shuffle(b, x, list(range(size)), y) for x, y in zip(p[::2], p[1::2], strict=True)]
                out.append(p[0])
            return c.make_tuple(b, acc, out)

        return acc(acc, ws, x, stride), cg

    return dot


def dot_unsigned(n: int, largest: int) -> Any:
    """An operation (acc, ws, x, stride): acc[t] += sum over n vectors ws[j] (values 0..largest, at most 128) of the
    products with the 4 activations at x + t * stride + 4 j."""
    assert 0 < largest <= 128
    return _dot(n, False, max(1, 32767 // (largest * 127 * 2)))


def dot_signed(n: int) -> Any:
    """The same for signed weights -128..127. The sums must start from `signed_start`."""
    return _dot(n, True, 1)


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


@intrinsic
def dot_pairs(typingctx: Any, acc: Any, pairs: Any, x: Any, stride: Any) -> Any:
    """acc[t] += a0 * x0 + a1 * x1 in i32: pairs holds two i16 a lane, x0 and x1 are the i16 at x + t * stride."""

    def build(b: Any, t: int, acc: Any, pairs: Any, x: Any, stride: Any) -> Any:
        both = splat(b, load(b, at(b, x, stride, t), I32), i32x16.ll)
        bits = Target.isa.bits
        half = lambda v: b.bitcast(v, _vec(I16, v.type.count * 32))  # noqa: E731
        products = by_parts(b, bits, lambda p, q: _madd(b, half(p), half(q)), pairs, both)
        return b.add(acc, products)

    return group_op(build)(typingctx, acc, pairs, x, stride)


@intrinsic
def minus_sums(typingctx: Any, acc: Any, offset: Any, sums: Any, stride: Any) -> Any:
    """acc[t] -= offset * (the i16 at sums + t * stride): takes back an offset of weights that were stored unsigned."""

    def build(b: Any, t: int, acc: Any, offset: Any, sums: Any, stride: Any) -> Any:
        total = b.sext(load(b, at(b, sums, stride, t), I16), I32)
        return b.sub(acc, splat(b, b.mul(total, b.trunc(offset, I32)), i32x16.ll))

    return group_op(build)(typingctx, acc, types.int64, sums, stride)


pair = op(i32x16, (i32x16, i32x16), lambda b, lo, hi: b.or_(b.and_(lo, const(lo.type, 0xFFFF)), b.shl(hi, const(hi.type, 16))))

# ---- bytes ----


def bits_at(shift: int, mask: int) -> Any:
    """An operation: every byte's bits (v >> shift) & mask. The shift runs over 16 bits, the mask cleans up."""

    def build(b: Any, v: Any) -> Any:
        h = b.bitcast(v, ir.VectorType(I16, 32))
        if shift:
            h = b.lshr(h, const(h.type, shift))
        return b.and_(b.bitcast(h, u8x64.ll), const(u8x64.ll, mask))

    return op(u8x64, (u8x64,), build)


def bits_to(source: int, mask: int, target: int) -> Any:
    """An operation (v, high): v | (high's bits `mask` at bit `source`, moved to bit `target`)."""

    def build(b: Any, v: Any, high: Any) -> Any:
        h = b.bitcast(high, ir.VectorType(I16, 32))
        if target > source:
            h = b.shl(h, const(h.type, target - source))
        elif target < source:
            h = b.lshr(h, const(h.type, source - target))
        return b.or_(v, b.and_(b.bitcast(h, u8x64.ll), const(u8x64.ll, mask << target)))

    return op(u8x64, (u8x64, u8x64), build)


def lookup(table: tuple[int, ...]) -> Any:
    """An operation: every byte 0..15 -> the signed byte table[v]."""
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

    return op(u8x64, (u8x64,), build)
