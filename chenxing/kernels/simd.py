"""The vocabulary that kernels are written in: operations on logical vectors of 16 lanes, on groups, and on scalars.

Addresses are int64. Scalars are f32, i32 or int64. Nothing here reassociates; `fma` is one rounding everywhere;
horizontal sums and maxima use one fixed tree. Imported as `v`, together with the types of vectors.py, and only where
kernels are compiled.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from chenxing.kernels.exact import fma_ir, narrow_f16, widen_f16
from chenxing.kernels.vectors import (  # noqa: F401  kernels find these under this module's name too
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    LANES,
    Target,
    at,
    by_parts,
    call,
    compile_function,
    const,
    f32,
    f32x16,
    f64,
    group,
    group_op,
    i32,
    i32x16,
    i64,
    kernel_inline,
    load,
    op,
    shuffle,
    splat,
    store,
    u8x64,
    void,
)

# ---- scalar loads and stores ----

ld_i64 = op(i64, (i64,), lambda b, p: load(b, p, I64))
ld_i32 = op(i64, (i64,), lambda b, p: b.sext(load(b, p, I32), I64))
ld_u8 = op(i64, (i64,), lambda b, p: b.zext(load(b, p, I8), I64))
ld_i8 = op(i64, (i64,), lambda b, p: b.sext(load(b, p, I8), I64))
ld_u16 = op(i64, (i64,), lambda b, p: b.zext(load(b, p, I16), I64))
ld_f32 = op(f32, (i64,), lambda b, p: load(b, p, F32))
ld_f64 = op(f64, (i64,), lambda b, p: load(b, p, F64))
ld_f16 = op(f32, (i64,), lambda b, p: widen_f16(b, load(b, p, F16)))
ld_bf16 = op(f32, (i64,), lambda b, p: b.bitcast(b.shl(b.zext(load(b, p, I16), I32), I32(16)), F32))
st_i64 = op(void, (i64, i64), store)
st_i32 = op(void, (i64, i64), lambda b, p, v: store(b, p, b.trunc(v, I32)))
st_i16 = op(void, (i64, i64), lambda b, p, v: store(b, p, b.trunc(v, I16)))
st_f32 = op(void, (i64, f32), store)
st_f16 = op(void, (i64, f32), lambda b, p, v: store(b, p, narrow_f16(b, v)))
sqrt_scalar = op(f32, (f32,), lambda b, v: call(b, "llvm.sqrt.f32", F32, v))
rint_f64 = op(f64, (f64,), lambda b, v: b.fsub(b.fadd(v, const(F64, 1.5 * 2**52)), const(F64, 1.5 * 2**52)))

# ---- vector loads and stores ----

_H16, _S16, _B16 = ir.VectorType(F16, 16), ir.VectorType(I16, 16), ir.VectorType(I8, 16)
ld_f32x16 = op(f32x16, (i64,), lambda b, p: load(b, p, f32x16.ll))
ld_f16x16 = op(f32x16, (i64,), lambda b, p: widen_f16(b, load(b, p, _H16)))
ld_bf16x16 = op(
    f32x16,
    (i64,),
    lambda b, p: b.bitcast(b.shl(b.zext(load(b, p, _S16), i32x16.ll), const(i32x16.ll, 16)), f32x16.ll),
)
ld_u8x64 = op(u8x64, (i64,), lambda b, p: load(b, p, u8x64.ll))
ld_u8x16 = op(i32x16, (i64,), lambda b, p: b.zext(load(b, p, _B16), i32x16.ll))
ld_i32x16 = op(i32x16, (i64,), lambda b, p: load(b, p, i32x16.ll))
st_f32x16 = op(void, (i64, f32x16), store)
st_i32x16 = op(void, (i64, i32x16), store)
st_f16x16 = op(void, (i64, f32x16), lambda b, p, v: store(b, p, narrow_f16(b, v)))
st_i8x16 = op(void, (i64, i32x16), lambda b, p, v: store(b, p, b.trunc(v, _B16)))
bcast_f32 = op(f32x16, (i64,), lambda b, p: splat(b, load(b, p, F32), f32x16.ll))
splat_f32 = op(f32x16, (f32,), lambda b, v: splat(b, v, f32x16.ll))
splat_i32 = op(i32x16, (i64,), lambda b, v: splat(b, b.trunc(v, I32), i32x16.ll))
zero_f32 = op(f32x16, (), lambda b: const(f32x16.ll, 0.0))
iota = op(i32x16, (), lambda b: ir.Constant(i32x16.ll, list(range(16))))


def prefetch_ir(b: Any, p: Any) -> None:
    """Into L2 (locality 2): measured best for streams of weights and KV pages."""
    call(b, "llvm.prefetch.p0", ir.VoidType(), b.inttoptr(p, I8.as_pointer()), I32(0), I32(2), I32(1))


prefetch = op(void, (i64,), prefetch_ir)

# ---- lane-wise arithmetic ----

fma = op(f32x16, (f32x16,) * 3, fma_ir)  # acc + x * y
mul = op(f32x16, (f32x16,) * 2, lambda b, x, y: b.fmul(x, y))
add = op(f32x16, (f32x16,) * 2, lambda b, x, y: b.fadd(x, y))
sub = op(f32x16, (f32x16,) * 2, lambda b, x, y: b.fsub(x, y))
div = op(f32x16, (f32x16,) * 2, lambda b, x, y: b.fdiv(x, y))
fabs = op(f32x16, (f32x16,), lambda b, x: call(b, "llvm.fabs.v16f32", f32x16.ll, x))
vmax = op(f32x16, (f32x16,) * 2, lambda b, x, y: b.select(b.fcmp_ordered(">", x, y), x, y))
vmin = op(f32x16, (f32x16,) * 2, lambda b, x, y: b.select(b.fcmp_ordered("<", x, y), x, y))
copysign = op(f32x16, (f32x16,) * 2, lambda b, x, y: call(b, "llvm.copysign.v16f32", f32x16.ll, x, y))
add_i = op(i32x16, (i32x16,) * 2, lambda b, x, y: b.add(x, y))
# |x| < 2^22: nearest even through the rounding of an addition, no libm and no SSE4
_MAGIC = 1.5 * 2**23
round_i32 = op(
    i32x16,
    (f32x16,),
    lambda b, x: b.sub(b.bitcast(b.fadd(x, const(f32x16.ll, _MAGIC)), i32x16.ll), const(i32x16.ll, 0x4B400000)),
)
select_lt = op(f32x16, (i32x16, i32x16, f32x16, f32x16), lambda b, i, j, x, y: b.select(b.icmp_signed("<", i, j), x, y))


def _tree(combine: Callable) -> Callable:
    """Reduction of 16 lanes in one fixed order: halves of 8, 4, 2, 1."""

    def build(b: Any, v: Any) -> Any:
        for h in (8, 4, 2, 1):
            v = combine(b, v, shuffle(b, v, [(i + h) % 16 for i in range(16)]))
        return b.extract_element(v, I32(0))

    return build


hsum = op(f32, (f32x16,), _tree(lambda b, x, y: b.fadd(x, y)))
hmax = op(f32, (f32x16,), _tree(lambda b, x, y: b.select(b.fcmp_ordered(">", x, y), x, y)))
hsum_i = op(i64, (i32x16,), lambda b, v: b.sext(_tree(lambda b, x, y: b.add(x, y))(b, v), I64))


def _is_inside(b: Any, x: Any, limit: float) -> Any:
    """Lane by lane |x| < limit; false for what is not a number."""
    return b.fcmp_ordered("<", call(b, "llvm.fabs.v16f32", x.type, x), const(x.type, limit))


def inside(limit: float) -> Any:
    """An operation: x where |x| < limit, else 0."""
    return op(f32x16, (f32x16,), lambda b, x: b.select(_is_inside(b, x, limit), x, const(x.type, 0.0)))


def outside(limit: float) -> Any:
    """An operation: 0 where |x| < limit, else 1, as i32x16."""
    return op(i32x16, (f32x16,), lambda b, x: b.zext(b.not_(_is_inside(b, x, limit)), i32x16.ll))


def constant(value: float) -> Any:
    """An operation that gives f32x16 with `value` in every lane."""
    return op(f32x16, (), lambda b: const(f32x16.ll, value))


# ---- groups: one vector per token ----


def zeros_f32(n: int) -> Any:
    """An operation that gives a group of n f32 vectors, all zero."""

    @intrinsic
    def zeros(typingctx: Any) -> Any:
        ty = group(f32x16, n)
        return ty(), lambda c, b, s, a: c.make_tuple(b, ty, [const(f32x16.ll, 0.0)] * n)

    return zeros


def zeros_i32(n: int) -> Any:
    """An operation that gives a group of n i32 vectors, all zero."""

    @intrinsic
    def zeros(typingctx: Any) -> Any:
        ty = group(i32x16, n)
        return ty(), lambda c, b, s, a: c.make_tuple(b, ty, [const(i32x16.ll, 0)] * n)

    return zeros


def _group_bcast(b: Any, addr: Any, stride: Any, t: int) -> Any:
    return splat(b, load(b, at(b, addr, stride, t), F32), f32x16.ll)


@intrinsic
def rank1(typingctx: Any, acc: Any, w: Any, x: Any, stride: Any) -> Any:
    """acc[t] += w * (f32 at x + t * stride): one column of an outer product, by fma."""
    return group_op(lambda b, t, acc, w, x, stride: fma_ir(b, acc, w, _group_bcast(b, x, stride, t)))(
        typingctx, acc, w, x, stride
    )


@intrinsic
def add_scaled(typingctx: Any, acc: Any, sums: Any, d: Any, x: Any, stride: Any) -> Any:
    """acc[t] += (d * xd[t]) * f32(sums[t]) with xd[t] the f32 at x + t * stride: one product, one fma."""

    def build(b: Any, t: int, acc: Any, sums: Any, d: Any, x: Any, stride: Any) -> Any:
        return fma_ir(b, acc, b.fmul(d, _group_bcast(b, x, stride, t)), b.sitofp(sums, f32x16.ll))

    return group_op(build)(typingctx, acc, sums, d, x, stride)


@intrinsic
def sub_scaled(typingctx: Any, acc: Any, sums: Any, d: Any, x: Any, stride: Any) -> Any:
    """acc[t] -= (d * xd[t]) * f32(sums[t]), by the fma of the negated product."""

    def build(b: Any, t: int, acc: Any, sums: Any, d: Any, x: Any, stride: Any) -> Any:
        product = b.fmul(d, _group_bcast(b, x, stride, t))
        return fma_ir(b, acc, b.fsub(const(f32x16.ll, -0.0), product), b.sitofp(sums, f32x16.ll))

    return group_op(build)(typingctx, acc, sums, d, x, stride)


@intrinsic
def mul_add(typingctx: Any, total: Any, sums: Any, scale: Any) -> Any:
    """total[t] += sums[t] * scale in i32."""
    return group_op(lambda b, t, total, sums, scale: b.add(total, b.mul(sums, scale)))(typingctx, total, sums, scale)


def load_group(n: int, kind: Any = f32x16) -> Any:
    """An operation (addr, stride): a group of n vectors, f32 by default, vector t from addr + t * stride."""

    @intrinsic
    def ld(typingctx: Any, addr: Any, stride: Any) -> Any:
        ty = group(kind, n)

        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            return c.make_tuple(b, ty, [load(b, at(b, a[0], a[1], t), kind.ll) for t in range(n)])

        return ty(i64, i64), cg

    return ld


def store_group(n: int) -> Any:
    """An operation (addr, stride, group of n): vector t goes to addr + t * stride."""

    @intrinsic
    def st(typingctx: Any, addr: Any, stride: Any, values: Any) -> Any:
        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            for t in range(n):
                store(b, at(b, a[0], a[1], t), b.extract_value(a[2], t))
            return c.get_dummy_value()

        return void(i64, i64, values), cg

    return st
