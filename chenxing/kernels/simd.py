"""The vocabulary that kernels are written in: logical SIMD vectors of 16 lanes as numba types.

`f32x16`, `i32x16` and `u8x64` (16 lanes of 4 bytes) are LLVM vectors. LLVM cuts them into whatever registers the
instruction set has, so one source serves 128, 256 and 512 bits with the same sequence of operations in every lane:
the bits never depend on the width. Horizontal sums and maxima use one fixed tree.

A *group* is a numba tuple of vectors, one per token: operations on groups are unrolled and stay in registers.
Addresses are int64. Scalars are f32, i32 or int64. Nothing here reassociates; `fma` is one rounding everywhere.
This module and the kernels that use it are imported only where kernels are compiled.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.compiler import Flags, compile_extra
from numba.core.datamodel import models
from numba.core.registry import cpu_target
from numba.extending import intrinsic, register_model

from chenxing.kernels.isa import ISA, ISAS

LANES = 16
I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
f32, f64, i32, i64, void = types.float32, types.float64, types.int32, types.int64, types.void


class Target:
    """What the kernels of this process are compiled for; set once before the first one is."""

    isa: ISA = ISAS["sse"]
    context: Any = None  # numba's target context, see compile.py


class Vec(types.Type):
    """A logical vector; `ll` is its LLVM type."""

    def __init__(self, name: str, elem: ir.Type, n: int) -> None:
        self.ll = ir.VectorType(elem, n)
        super().__init__(name=name)


@register_model(Vec)
class _VecModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe: Vec) -> None:
        super().__init__(dmm, fe, fe.ll)


f32x16, i32x16, u8x64 = Vec("f32x16", F32, 16), Vec("i32x16", I32, 16), Vec("u8x64", I8, 64)


def group(vec: Vec, n: int) -> types.UniTuple:
    """The type of one vector for each of n tokens."""
    return types.UniTuple(vec, n)


# ---- building blocks of the operations below ----


def op(ret: Any, args: tuple, build: Callable) -> Any:
    """An operation from numba types and a function of (builder, *LLVM values)."""
    names = ", ".join(f"a{i}" for i in range(len(args)))
    space: dict[str, Any] = {
        "sig": ret(*args),
        "cg": lambda c, b, s, a: (lambda r: c.get_dummy_value() if r is None else r)(build(b, *a)),
    }
    exec(f"def op(typingctx{', ' if names else ''}{names}):\n    return sig, cg", space)
    return intrinsic(space["op"])


def group_op(build: Callable, result: int = 0) -> Any:
    """An operation whose argument `result` is a vector or a group, and which returns the same type.

    build(b, t, *values) gives the result of token t; groups are passed as one vector, the others as they are.
    The last two arguments are by convention an address and its stride in bytes from token to token.
    """

    def typer(typingctx: Any, *argtypes: Any) -> Any:
        target = argtypes[result]
        if not isinstance(target, types.UniTuple):
            return None
        n = target.count

        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            out = []
            for t in range(n):
                values = [
                    b.extract_value(v, t) if isinstance(ty, types.UniTuple) else v
                    for v, ty in zip(a, argtypes, strict=True)
                ]
                out.append(build(b, t, *values))
            return c.make_tuple(b, target, out)

        return target(*argtypes), cg

    return typer


def call(b: Any, name: str, ret: ir.Type, *args: Any) -> Any:
    """A call of an LLVM intrinsic."""
    return b.call(cgutils.get_or_insert_function(b.module, ir.FunctionType(ret, [x.type for x in args]), name), args)


def const(ty: ir.Type, value: float) -> ir.Constant:
    """`value` in every lane."""
    return ir.Constant(ty, [value] * ty.count) if isinstance(ty, ir.VectorType) else ir.Constant(ty, value)


def load(b: Any, addr: Any, ty: ir.Type) -> Any:
    v = b.load(b.inttoptr(addr, ty.as_pointer()))
    v.align = 1
    return v


def store(b: Any, addr: Any, v: Any) -> None:
    b.store(v, b.inttoptr(addr, v.type.as_pointer())).align = 1


def splat(b: Any, v: Any, ty: ir.VectorType) -> Any:
    u = ir.Constant(ty, ir.Undefined)
    zeros = ir.Constant(ir.VectorType(I32, ty.count), [0] * ty.count)
    return b.shuffle_vector(b.insert_element(u, v, I32(0)), u, zeros)


def shuffle(b: Any, v: Any, index: list[int], w: Any = None) -> Any:
    """Lanes of v (and w) by index."""
    return b.shuffle_vector(v, v if w is None else w, ir.Constant(ir.VectorType(I32, len(index)), index))


def at(b: Any, addr: Any, stride: Any, t: int) -> Any:
    """addr + t * stride"""
    return b.add(addr, b.mul(stride, ir.Constant(stride.type, t))) if t else addr


def by_parts(b: Any, part_bits: int, fn: Callable, *vectors: Any) -> Any:
    """fn over hardware-sized parts of logical vectors, joined again. Free: LLVM cuts them the same way."""
    n = 512 // part_bits
    if n == 1:
        return fn(*vectors)
    out = []
    for i in range(n):
        cut = [shuffle(b, v, list(range(i * v.type.count // n, (i + 1) * v.type.count // n))) for v in vectors]
        out.append(fn(*cut))
    while len(out) > 1:
        size = out[0].type.count * 2
        out = [shuffle(b, x, list(range(size)), y) for x, y in zip(out[::2], out[1::2], strict=True)]
    return out[0]


def kernel_inline(f: Callable) -> Any:
    """A function that kernels call; LLVM inlines it always.

    Compiled by itself for each tuple of argument types and the instruction set, in the context that generates code but
    never runs it, and linked into its callers. (numba's own inlining copies its IR over and over: twice the time.)
    """
    n_args = f.__code__.co_argcount
    compiled: dict[tuple, Any] = {}

    def compile_for(args: tuple) -> Any:
        key = (Target.isa.name, args)
        if key not in compiled:
            compiled[key] = compile_function(f, args, None)
        return compiled[key]

    def typer(typingctx: Any, *args: Any) -> Any:
        args = tuple(types.unliteral(a) for a in args)

        def cg(context: Any, b: Any, sig: Any, values: Any) -> Any:
            callee = compile_for(args)
            context.active_code_library.add_linking_library(callee.library)
            return context.call_internal(b, callee.fndesc, callee.signature, values)

        return compile_for(args).signature, cg

    names = ", ".join(f"a{i}" for i in range(n_args))
    space: dict[str, Any] = {"typer": typer}
    exec(f"def call(typingctx{', ' if names else ''}{names}):\n    return typer(typingctx, {names})", space)
    return intrinsic(space["call"])


def compile_function(f: Callable, args: tuple, return_type: Any) -> Any:
    """numba's result for these argument types, in the target's context; nothing of it is run in this process."""
    flags = Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.release_gil = True
    flags.forceinline = return_type is None
    flags.error_model = "numpy"
    return compile_extra(cpu_target.typing_context, Target.context, f, args, return_type, flags, locals={})


# ---- f16 <-> f32, exact with or without hardware ----


def widen_f16(b: Any, v: Any) -> Any:
    """f16 vector or scalar -> f32. Without F16C: the exponent is moved by a multiplication, exact for subnormals."""
    vector = isinstance(v.type, ir.VectorType)
    n = v.type.count if vector else 1
    fty = ir.VectorType(F32, n) if vector else F32
    if Target.isa.f16c:
        return b.fpext(v, fty)
    ity, sty = (ir.VectorType(I32, n), ir.VectorType(I16, n)) if vector else (I32, I16)
    h = b.zext(b.bitcast(v, sty), ity)
    magnitude = b.bitcast(b.shl(b.and_(h, const(ity, 0x7FFF)), const(ity, 13)), fty)
    scaled = b.fmul(magnitude, const(fty, 2.0**112))
    sign = b.shl(b.and_(h, const(ity, 0x8000)), const(ity, 16))
    return b.bitcast(b.or_(b.bitcast(scaled, ity), sign), fty)


def narrow_f16(b: Any, v: Any) -> Any:
    """f32 vector or scalar -> f16, round to nearest even; |v| must be below 65520 (else infinity in hardware)."""
    vector = isinstance(v.type, ir.VectorType)
    n = v.type.count if vector else 1
    hty = ir.VectorType(F16, n) if vector else F16
    if Target.isa.f16c:
        return b.fptrunc(v, hty)
    ity, sty, fty = (
        (ir.VectorType(I32, n), ir.VectorType(I16, n), ir.VectorType(F32, n)) if vector else (I32, I16, F32)
    )
    bits = b.bitcast(v, ity)
    mag = b.and_(bits, const(ity, 0x7FFFFFFF))
    # normal: add half of the dropped part (ties to even), then move the exponent
    odd = b.and_(b.lshr(mag, const(ity, 13)), const(ity, 1))
    normal = b.lshr(b.sub(b.add(b.add(mag, const(ity, 0xFFF)), odd), const(ity, 112 << 23)), const(ity, 13))
    # subnormal: an addition of 0.5 rounds to multiples of 2^-24
    half = const(fty, 0.5)
    sub = b.sub(b.bitcast(b.fadd(b.bitcast(mag, fty), half), ity), const(ity, 0x3F000000))
    small = b.icmp_unsigned("<", mag, const(ity, 113 << 23))
    sign = b.and_(b.lshr(bits, const(ity, 16)), const(ity, 0x8000))
    return b.bitcast(b.trunc(b.or_(b.select(small, sub, normal), sign), sty), hty)


# ---- fused multiply-add: one rounding, emulated exactly where the hardware has none ----


def _fma_exact(b: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z with one rounding, in f64: the product is exact; the sum is rounded to odd (Boldo and Melquiond
    2008), after which the rounding to f32 is the right one."""
    n = x.type.count if isinstance(x.type, ir.VectorType) else 1
    vector = isinstance(x.type, ir.VectorType)
    dty, lty = (ir.VectorType(F64, n), ir.VectorType(I64, n)) if vector else (F64, I64)
    p = b.fmul(b.fpext(x, dty), b.fpext(y, dty))
    c = b.fpext(z, dty)
    s = b.fadd(p, c)
    # TwoSum: e is the exact error of s
    t = b.fsub(s, p)
    e = b.fadd(b.fsub(p, b.fsub(s, t)), b.fsub(c, t))
    bits = b.bitcast(s, lty)
    one, zero = const(lty, 1), const(dty, 0.0)
    inexact = b.fcmp_unordered("!=", e, zero)
    even = b.icmp_signed("==", b.and_(bits, one), const(lty, 0))
    # away from zero if the error has the sign of s, towards zero otherwise
    same = b.icmp_signed(">=", b.xor(bits, b.bitcast(e, lty)), const(lty, 0))
    moved = b.select(same, b.add(bits, one), b.sub(bits, one))
    odd = b.bitcast(b.select(b.and_(inexact, even), moved, bits), dty)
    return b.fptrunc(odd, x.type)


def fma_ir(b: Any, acc: Any, x: Any, y: Any) -> Any:
    if not Target.isa.fma:
        return _fma_exact(b, x, y, acc)
    name = f"llvm.fma.v{x.type.count}f32" if isinstance(x.type, ir.VectorType) else "llvm.fma.f32"
    return call(b, name, x.type, x, y, acc)


# ---- scalar loads and stores ----

ld_i64 = op(i64, (i64,), lambda b, p: load(b, p, I64))
ld_i32 = op(i64, (i64,), lambda b, p: b.sext(load(b, p, I32), I64))
ld_i16 = op(i64, (i64,), lambda b, p: b.sext(load(b, p, I16), I64))
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
fma_scalar = op(f32, (f32, f32, f32), fma_ir)
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
ld_i32x16 = op(i32x16, (i64,), lambda b, p: load(b, p, i32x16.ll))
ld_u8x64 = op(u8x64, (i64,), lambda b, p: load(b, p, u8x64.ll))
ld_i8x16 = op(i32x16, (i64,), lambda b, p: b.sext(load(b, p, _B16), i32x16.ll))
ld_u8x16 = op(i32x16, (i64,), lambda b, p: b.zext(load(b, p, _B16), i32x16.ll))
st_f32x16 = op(void, (i64, f32x16), store)
st_f16x16 = op(void, (i64, f32x16), lambda b, p, v: store(b, p, narrow_f16(b, v)))
st_i8x16 = op(void, (i64, i32x16), lambda b, p, v: store(b, p, b.trunc(v, _B16)))
bcast_f32 = op(f32x16, (i64,), lambda b, p: splat(b, load(b, p, F32), f32x16.ll))
splat_f32 = op(f32x16, (f32,), lambda b, v: splat(b, v, f32x16.ll))
splat_i32 = op(i32x16, (i64,), lambda b, v: splat(b, b.trunc(v, I32), i32x16.ll))
zero_f32 = op(f32x16, (), lambda b: const(f32x16.ll, 0.0))
zero_i32 = op(i32x16, (), lambda b: const(i32x16.ll, 0))
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
to_f32 = op(f32x16, (i32x16,), lambda b, x: b.sitofp(x, f32x16.ll))
add_i = op(i32x16, (i32x16,) * 2, lambda b, x, y: b.add(x, y))
mul_i = op(i32x16, (i32x16,) * 2, lambda b, x, y: b.mul(x, y))
# |x| < 2^22: nearest even through the rounding of an addition, no libm and no SSE4
_MAGIC = 1.5 * 2**23
round_i32 = op(
    i32x16,
    (f32x16,),
    lambda b, x: b.sub(
        b.bitcast(b.fadd(x, const(f32x16.ll, _MAGIC)), i32x16.ll), const(i32x16.ll, 0x4B400000)
    ),
)
select_lt = op(
    f32x16, (i32x16, i32x16, f32x16, f32x16), lambda b, i, j, x, y: b.select(b.icmp_signed("<", i, j), x, y)
)


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
