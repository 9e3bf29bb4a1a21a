"""Vector types for numba, and what the operations of the SIMD vocabulary are built from.

`f32x16`, `i32x16` and `u8x64` (16 lanes of 4 bytes) are LLVM vectors. LLVM cuts them into whatever registers the
instruction set has, so one source serves 128, 256 and 512 bits with the same sequence of operations in every lane:
the bits never depend on the width.

A *group* is a numba tuple of vectors, one per token: operations on groups are unrolled and stay in registers.
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
I8, I16, I32, I64 = (ir.IntType(n) for n in (8, 16, 32, 64))
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
    flags: Any = Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.release_gil = True
    flags.forceinline = return_type is None
    flags.error_model = "numpy"
    return compile_extra(cpu_target.typing_context, Target.context, f, args, return_type, flags, locals={})
