"""Exact integer dot products of packed 8-bit weights with 8-bit activations, by instruction set.

Weights come as `u8x64`: 16 rows of 4 consecutive k. Activations are int8 in [-127, 127], row after row, and are
broadcast 4 bytes at a time. Sums are exact in i32, so every lowering gives the same integers (law L1):
    vnni      vpdpbusd: unsigned x signed, 4 products a lane
    maddubs   vpmaddubsw into i16, as many products as provably fit, then vpmaddwd with ones
    madd      widened to i16, pmaddwd
    sdot      signed x signed, 4 products a lane, the activations by lane of a register
    smull     8 products into i16, as many of them added as provably fit, then neighbours twice
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
    u8x64,
)


def _vec(elem: ir.Type, bits: int) -> ir.VectorType:
    return ir.VectorType(elem, bits // elem.width)


def _on_arm() -> bool:
    return Target.isa.dot in ("sdot", "smull")


def _bcast4(b: Any, addr: Any, bits: int) -> Any:
    """The 4 bytes at addr in every lane of a vector of `bits`, as bytes."""
    return b.bitcast(splat(b, load(b, addr, I32), _vec(I32, bits)), _vec(I8, bits))


def _broadcasts(b: Any, addr: Any, n: int, bits: int) -> list[Any]:
    """n vectors of `bits`: the j-th has the 4 bytes at addr + 4 j in every lane."""
    if Target.isa.dot == "sdot":  # it multiplies by a lane, so a register holds four of them
        words = load(b, addr, ir.VectorType(I32, n))
        return [b.bitcast(shuffle(b, words, [j] * (bits // 32)), _vec(I8, bits)) for j in range(n)]
    return [_bcast4(b, b.add(addr, ir.Constant(addr.type, 4 * j)), bits) for j in range(n)]


def _i16_pairs(b: Any, v: Any, signed: bool) -> tuple[Any, Any]:
    """Even and odd bytes, widened to i16."""
    h = b.bitcast(v, _vec(I16, v.type.count * 8))
    eight = const(h.type, 8)
    if signed:
        return b.ashr(b.shl(h, eight), eight), b.ashr(h, eight)
    return b.and_(h, const(h.type, 0xFF)), b.lshr(h, eight)


def _neighbours_added(b: Any, v: Any) -> Any:
    """v0 + v1, v2 + v3, ..."""
    even = list(range(0, v.type.count, 2))
    return b.add(shuffle(b, v, even), shuffle(b, v, [i + 1 for i in even]))


def _madd(b: Any, x: Any, y: Any) -> Any:
    """i16 x i16, neighbours added: i32."""
    bits = x.type.count * 16
    if _on_arm():
        wide = ir.VectorType(I32, x.type.count)
        return _neighbours_added(b, b.mul(b.sext(x, wide), b.sext(y, wide)))
    name = {128: "llvm.x86.sse2.pmadd.wd", 256: "llvm.x86.avx2.pmadd.wd", 512: "llvm.x86.avx512.pmaddw.d.512"}[bits]
    return call(b, name, _vec(I32, bits), x, y)


def _vpdpbusd(b: Any, acc: Any, u: Any, s: Any) -> Any:
    if ll.llvm_version_info[0] < 22:  # operands were typed as vectors of i32 then
        u, s = b.bitcast(u, acc.type), b.bitcast(s, acc.type)
    return call(b, f"llvm.x86.avx512.vpdpbusd.{acc.type.count * 32}", acc.type, acc, u, s)


def _sum_smull(b: Any, acc: Any, ws: list, xs: list, per: int) -> Any:
    """acc + the products of one hardware part. Two of the largest, 128 * 127, fit in an i16; `per` of such pairs do."""
    wide = ir.VectorType(I16, 16)
    for first in range(0, len(ws), per):
        total = None
        for w, x in zip(ws[first : first + per], xs[first : first + per], strict=True):
            p = b.mul(b.sext(w, wide), b.sext(x, wide))
            total = p if total is None else b.add(total, p)
        pairs = _neighbours_added(b, total)
        acc = b.add(acc, _neighbours_added(b, b.sext(pairs, ir.VectorType(I32, 8))))
    return acc


def _sum_part(b: Any, acc: Any, ws: list, xs: list, signed: bool, per: int) -> Any:
    """acc + the products of one hardware part: weights ws, broadcast activations xs."""
    dot = Target.isa.dot
    if dot.startswith("vnni"):
        flip = const(ws[0].type, -128)
        for w, x in zip(ws, xs, strict=True):
            acc = _vpdpbusd(b, acc, b.xor(w, flip) if signed else w, x)
        return acc
    if dot == "sdot":
        for w, x in zip(ws, xs, strict=True):
            acc = call(b, "llvm.aarch64.neon.sdot.v4i32.v16i8", acc.type, acc, w, x)
        return acc
    if dot == "smull":
        return _sum_smull(b, acc, ws, xs, per)
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
                    xs = _broadcasts(b, at(b, a[2], a[3], t), n, bits)
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
    """An operation (acc, ws, x, stride): acc[t] += sum over n vectors ws[j] (values 0..largest, at most 127) of the
    products with the 4 activations at x + t * stride + 4 j."""
    assert 0 < largest <= 127  # as a signed byte it is the same number: sdot and smull read it as one
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


@intrinsic
def signed_start_pair(typingctx: Any, like: Any, sums: Any, stride: Any) -> Any:
    """`signed_start` where the activations' sum is that of the two i16 at sums + t * stride."""

    def build(b: Any, t: int, like: Any, sums: Any, stride: Any) -> Any:
        if not Target.isa.dot.startswith("vnni"):
            return const(i32x16.ll, 0)
        both = splat(b, load(b, at(b, sums, stride, t), I32), i32x16.ll)
        return _madd_pairs(b, both, const(i32x16.ll, -128 << 16 | -128 & 0xFFFF))

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


pair = op(
    i32x16, (i32x16, i32x16), lambda b, lo, hi: b.or_(b.and_(lo, const(lo.type, 0xFFFF)), b.shl(hi, const(hi.type, 16)))
)

# pairs of i16 a lane: bytes of two sub-blocks side by side, and each of the two as i32
_B32, _S32 = ir.VectorType(I8, 32), ir.VectorType(I16, 32)
ld_i8_pairs = op(i32x16, (types.int64,), lambda b, p: b.bitcast(b.sext(load(b, p, _B32), _S32), i32x16.ll))
even = op(i32x16, (i32x16,), lambda b, v: b.ashr(b.shl(v, const(v.type, 16)), const(v.type, 16)))
odd = op(i32x16, (i32x16,), lambda b, v: b.ashr(v, const(v.type, 16)))


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
    h = v if _on_arm() else b.bitcast(v, ir.VectorType(I16, 32))  # x86 has no shifts of bytes
    if target > source:
        h = b.shl(h, const(h.type, target - source))
    elif target < source:
        h = b.lshr(h, const(h.type, source - target))
    # if the shift ran over 16 bits, the mask takes off what came from the neighbour
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
        if _on_arm():
            values = ir.Constant(_vec(I8, 128), list(table))
            return by_parts(b, 128, lambda p: call(b, "llvm.aarch64.neon.tbl1.v16i8", p.type, values, p), v)
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
