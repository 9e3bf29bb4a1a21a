"""Exact sums of products of packed 8-bit weights with 8-bit activations, by instruction set: builders over LLVM values.

All give the same integers (law L1):
    vnni      vpdpbusd: unsigned x signed, 4 products a lane
    maddubs   vpmaddubsw into i16, as many products as provably fit, then vpmaddwd with the scale or with ones
    madd      widened to i16, pmaddwd
    sdot      signed x signed, 4 products a lane, the activations by lane of a register
    smull     8 products into i16, as many of them added as provably fit, then neighbours twice
"""

from typing import Any

import llvmlite.binding as ll
from llvmlite import ir

from chenxing.kernels.simd import I8, I16, I32, Target, at, call, const, load, shuffle, splat


def vec(elem: ir.Type, bits: int) -> ir.VectorType:
    return ir.VectorType(elem, bits // elem.width)


def on_arm() -> bool:
    return Target.isa.dot in ("sdot", "smull")


def together(largest: int) -> int:
    """How many products of two neighbours fit in i16 for weights 0..largest; 1 for signed ones, largest 0."""
    return max(1, 32767 // (largest * 127 * 2)) if largest else 1


def madd(b: Any, x: Any, y: Any) -> Any:
    """i16 x i16, neighbours added: i32."""
    bits = x.type.count * 16
    if on_arm():
        wide = ir.VectorType(I32, x.type.count)
        return _neighbours_added(b, b.mul(b.sext(x, wide), b.sext(y, wide)))
    name = {128: "llvm.x86.sse2.pmadd.wd", 256: "llvm.x86.avx2.pmadd.wd", 512: "llvm.x86.avx512.pmaddw.d.512"}[bits]
    return call(b, name, vec(I32, bits), x, y)


def sums(b: Any, accs: list, ws: list, scale: Any, x: Any, stride: Any, largest: int) -> list[Any]:
    """accs[t] + scale * (the sum over ws[j] times the 4 activations at x + t * stride + 4 j).

    scale    i16 pairs, both halves of a lane the same, or None for 1
    largest  of the weights, which are unsigned; 0: signed weights, to which vnni adds 128
    Two hardware parts at a time share a broadcast, so that few registers live at once.
    """
    n_parts = 512 // Target.isa.bits
    out: list[list[Any]] = [[] for _ in accs]
    for first in range(0, n_parts, 2):
        parts = range(first, min(first + 2, n_parts))
        totals = [[_cut(b, acc, i) for i in parts] for acc in accs]
        scales = [None if scale is None else _cut(b, scale, i) for i in parts]
        pieces = [[_cut(b, w, i) for i in parts] for w in ws]
        sum_up = _sum_maddubs if Target.isa.dot == "maddubs" else _sum_i32
        for t, total in enumerate(sum_up(b, totals, pieces, scales, x, stride, largest)):
            out[t] += total
    return [_joined(b, parts) for parts in out]


def _cut(b: Any, v: Any, i: int) -> Any:
    """Hardware part i of a logical vector."""
    n = v.type.count * Target.isa.bits // 512
    return shuffle(b, v, list(range(i * n, (i + 1) * n))) if n < v.type.count else v


def _joined(b: Any, parts: list[Any]) -> Any:
    while len(parts) > 1:
        size = parts[0].type.count * 2
        parts = [shuffle(b, p, list(range(size)), q) for p, q in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _broadcast(b: Any, addr: Any, j: int, bits: int) -> Any:
    """The 4 bytes at addr + 4 j in every lane of a vector of `bits`, as bytes."""
    word = load(b, b.add(addr, ir.Constant(addr.type, 4 * j)), I32)
    return b.bitcast(splat(b, word, vec(I32, bits)), vec(I8, bits))


def _broadcasts(b: Any, addr: Any, n: int, bits: int) -> list[Any]:
    """n vectors of `bits`: the j-th has the 4 bytes at addr + 4 j in every lane."""
    if Target.isa.dot == "sdot":  # it multiplies by a lane, so a register holds four of them
        words = load(b, addr, ir.VectorType(I32, n))
        return [b.bitcast(shuffle(b, words, [j] * (bits // 32)), vec(I8, bits)) for j in range(n)]
    return [_broadcast(b, addr, j, bits) for j in range(n)]


# ---- maddubs ----


def _sum_maddubs(b: Any, totals: list, ws: list, scales: list, x: Any, stride: Any, largest: int) -> list[list[Any]]:
    """Products are added in i16 while they fit; vpmaddwd then applies the scale and makes i32 of two neighbours."""
    per = together(largest)
    # without a scale to load in between, LLVM would go row by row, and all weights through memory: a fourth slower
    in_order = scales[0] is None
    for first in range(0, len(ws), per):
        sums: list[list[Any]] = [[None] * len(scales) for _ in totals]
        for j in range(first, min(first + per, len(ws))):
            for t in range(len(totals)):
                four = _broadcast(b, at(b, x, stride, t), j, 256)
                for i, w in enumerate(ws[j]):
                    p = _maddubs(b, w, four, largest == 0)
                    sums[t][i] = p if sums[t][i] is None else _pinned(b, b.add(sums[t][i], p), in_order)
        for t, total in enumerate(totals):
            for i, scale in enumerate(scales):
                factor = const(vec(I16, 256), 1) if scale is None else b.bitcast(scale, vec(I16, 256))
                total[i] = b.add(total[i], madd(b, sums[t][i], factor))
                if in_order:
                    total[i] = _pinned(b, total[i], in_order)
    return totals


def sums_of_stored(b: Any, accs: list, ws: Any, n: int, x: Any, stride: Any) -> list[Any]:
    """accs[t] + the sum over n signed vectors at ws, whose absolute values lie behind them: for maddubs.

    Each vector is loaded where it is used: as values, LLVM would load all of them first, and then spill them.
    """
    totals = [[_cut(b, acc, i) for i in range(2)] for acc in accs]
    for j in range(n):
        w, size = ([_part(b, ws, 64 * k + 32 * i) for i in range(2)] for k in (j, n + j))
        for t, total in enumerate(totals):
            four = _broadcast(b, at(b, x, stride, t), j, 256)
            for i in range(2):
                p = _maddubs(b, size[i], call(b, "llvm.x86.avx2.psign.b", four.type, four, w[i]), signed=False)
                total[i] = _pinned(b, b.add(total[i], madd(b, p, const(vec(I16, 256), 1))), in_order=True)
    return [_joined(b, parts) for parts in totals]


def _part(b: Any, addr: Any, offset: int) -> Any:
    return load(b, b.add(addr, ir.Constant(addr.type, offset)), vec(I8, 256))


def _maddubs(b: Any, u: Any, s: Any, signed: bool) -> Any:
    """Weights u times activations s, sums of two neighbours as i16: saturating, which `together` rules out."""
    if signed:  # |u| x (s with u's sign): at most 128 * 127 * 2 = 32512
        s = call(b, "llvm.x86.avx2.psign.b", u.type, s, u)
        u = call(b, "llvm.abs.v32i8", u.type, u, ir.Constant(ir.IntType(1), 0))
    return call(b, "llvm.x86.avx2.pmadd.ub.sw", vec(I16, 256), u, s)


def _pinned(b: Any, v: Any, in_order: bool) -> Any:
    """v, through an empty assembly that LLVM does not see through: it would regroup a chain of sums into a tree, whose
    values do not fit in sixteen registers. in_order: pinned values also keep the order in which they are written."""
    return b.asm(ir.FunctionType(v.type, [v.type]), "", "=x,0", [v], in_order)


# ---- the others ----


def _sum_i32(b: Any, totals: list, ws: list, scales: list, x: Any, stride: Any, largest: int) -> list[list[Any]]:
    """Sums in i32, then the scale."""
    for t, total in enumerate(totals):
        xs = _broadcasts(b, at(b, x, stride, t), len(ws), Target.isa.bits)
        for i, scale in enumerate(scales):
            acc = total[i] if scale is None else const(total[i].type, 0)
            acc = _sum_part(b, acc, [w[i] for w in ws], xs, largest)
            if scale is not None:
                acc = b.add(total[i], b.mul(acc, b.ashr(scale, const(acc.type, 16))))
            total[i] = acc
    return totals


def _sum_part(b: Any, acc: Any, ws: list, xs: list, largest: int) -> Any:
    """acc + the products of one hardware part: weights ws, broadcast activations xs."""
    if Target.isa.dot == "smull":
        return _sum_smull(b, acc, ws, xs, together(largest))
    for w, x in zip(ws, xs, strict=True):
        if Target.isa.dot.startswith("vnni"):
            acc = _vpdpbusd(b, acc, w if largest else b.xor(w, const(w.type, -128)), x)
        elif Target.isa.dot == "sdot":
            acc = call(b, "llvm.aarch64.neon.sdot.v4i32.v16i8", acc.type, acc, w, x)
        else:
            we, wo = i16_pairs(b, w, signed=largest == 0)
            xe, xo = i16_pairs(b, x, signed=True)
            acc = b.add(acc, b.add(madd(b, we, xe), madd(b, wo, xo)))
    return acc


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


def _vpdpbusd(b: Any, acc: Any, u: Any, s: Any) -> Any:
    if ll.llvm_version_info[0] < 22:  # operands were typed as vectors of i32 then
        u, s = b.bitcast(u, acc.type), b.bitcast(s, acc.type)
    return call(b, f"llvm.x86.avx512.vpdpbusd.{acc.type.count * 32}", acc.type, acc, u, s)


def i16_pairs(b: Any, v: Any, signed: bool) -> tuple[Any, Any]:
    """Even and odd bytes, widened to i16."""
    h = b.bitcast(v, vec(I16, v.type.count * 8))
    eight = const(h.type, 8)
    if signed:
        return b.ashr(b.shl(h, eight), eight), b.ashr(h, eight)
    return b.and_(h, const(h.type, 0xFF)), b.lshr(h, eight)


def _neighbours_added(b: Any, v: Any) -> Any:
    """v0 + v1, v2 + v3, ..."""
    even = list(range(0, v.type.count, 2))
    return b.add(shuffle(b, v, even), shuffle(b, v, [i + 1 for i in even]))
