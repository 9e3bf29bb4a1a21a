"""Formats of keys and values in pages: how lanes become f32, and how a strip of 32 values is stored.

f16, bf16  rounded to nearest even
f32        as computed
q8_0       per token and strip d = f16(amax / 127), q = round(x / d) within +-127, 0 where d is 0; a value is d * q,
           which is exact in f32 (11 + 8 bits), so that attention over it is the same sequence of operations
Layout in attention_layout.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from chenxing.kernels import simd as v
from chenxing.kernels.attention_layout import KV_TYPES, KVType
from chenxing.kernels.exact import fma_ir, narrow_f16, widen_f16
from chenxing.kernels.simd import (
    F16,
    F32,
    I8,
    I16,
    at,
    const,
    f32x16,
    group,
    i32x16,
    i64,
    kernel_inline,
    load,
    op,
    splat,
    store,
    void,
)

_H16, _S16, _B16 = ir.VectorType(F16, 16), ir.VectorType(I16, 16), ir.VectorType(I8, 16)


@dataclass(frozen=True)
class KVFormat:
    """type     sizes
    widen    (builder, address) -> 16 lanes in f32, but for the scale
    encode   (f32[32] source, destination) kernel function: 32 elements, returns their scale (unused without a header)
    """

    type: KVType
    widen: Callable
    encode: Callable


def _narrow_bf16(b: Any, x: Any) -> Any:
    """f32 -> bf16 lanes, to nearest even; by integers, since not every backend can."""
    bits = b.bitcast(x, i32x16.ll)
    odd = b.and_(b.lshr(bits, const(i32x16.ll, 16)), const(i32x16.ll, 1))
    return b.trunc(b.lshr(b.add(b.add(bits, odd), const(i32x16.ll, 0x7FFF)), const(i32x16.ll, 16)), _S16)


_st_bf16x16 = op(void, (i64, f32x16), lambda b, p, x: store(b, p, _narrow_bf16(b, x)))
_round_f16 = op(v.f32, (v.f32,), lambda b, x: widen_f16(b, narrow_f16(b, x)))
_limit, _minus_limit = v.constant(127.0), v.constant(-127.0)


@kernel_inline
def _encode_f16(src, dst):
    v.st_f16x16(dst, v.ld_f32x16(src))
    v.st_f16x16(dst + 32, v.ld_f32x16(src + 64))
    return v.f32(0.0)


@kernel_inline
def _encode_bf16(src, dst):
    _st_bf16x16(dst, v.ld_f32x16(src))
    _st_bf16x16(dst + 32, v.ld_f32x16(src + 64))
    return v.f32(0.0)


@kernel_inline
def _encode_f32(src, dst):
    v.st_f32x16(dst, v.ld_f32x16(src))
    v.st_f32x16(dst + 64, v.ld_f32x16(src + 64))
    return v.f32(0.0)


@kernel_inline
def _encode_q8_0(src, dst):
    x0 = v.ld_f32x16(src)
    x1 = v.ld_f32x16(src + 64)
    d = _round_f16(v.f32(v.hmax(v.vmax(v.fabs(x0), v.fabs(x1))) / v.f32(127.0)))
    if d == v.f32(0.0):
        x0 = v.zero_f32()
        x1 = x0
    else:
        x0 = v.div(x0, v.splat_f32(d))
        x1 = v.div(x1, v.splat_f32(d))
    v.st_i8x16(dst, v.round_i32(v.vmax(v.vmin(x0, _limit()), _minus_limit())))
    v.st_i8x16(dst + 16, v.round_i32(v.vmax(v.vmin(x1, _limit()), _minus_limit())))
    return d


def _widen_bf16(b: Any, p: Any) -> Any:
    return b.bitcast(b.shl(b.zext(load(b, p, _S16), i32x16.ll), const(i32x16.ll, 16)), f32x16.ll)


FORMATS = {
    "f16": KVFormat(KV_TYPES["f16"], lambda b, p: widen_f16(b, load(b, p, _H16)), _encode_f16),
    "bf16": KVFormat(KV_TYPES["bf16"], _widen_bf16, _encode_bf16),
    "f32": KVFormat(KV_TYPES["f32"], lambda b, p: load(b, p, f32x16.ll), _encode_f32),
    "q8_0": KVFormat(
        KV_TYPES["q8_0"], lambda b, p: b.sitofp(b.sext(load(b, p, _B16), i32x16.ll), f32x16.ll), _encode_q8_0
    ),
}


def lane_scales(kv: KVFormat, n: int) -> Any:
    """An operation (strip, first token): the scales of n x 16 tokens, lanes are tokens, as a group; zeros without."""

    @intrinsic
    def scales(typingctx: Any, strip: Any, token: Any) -> Any:
        ty = group(f32x16, n)

        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            if not kv.type.header_bytes:
                return c.make_tuple(b, ty, [const(f32x16.ll, 0.0)] * n)
            first = at(b, a[0], a[1], 2)
            vectors = [widen_f16(b, load(b, b.add(first, v.I64(32 * p)), _H16)) for p in range(n)]
            return c.make_tuple(b, ty, vectors)

        return ty(i64, i64), cg

    return scales


def token_scale(kv: KVFormat, n: int) -> Any:
    """An operation (strip, token): the scale of one token n times, as a group; zeros without."""

    @intrinsic
    def scale(typingctx: Any, strip: Any, token: Any) -> Any:
        ty = group(f32x16, n)

        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            x = const(f32x16.ll, 0.0)
            if kv.type.header_bytes:
                x = splat(b, widen_f16(b, load(b, at(b, a[0], a[1], 2), F16)), f32x16.ll)
            return c.make_tuple(b, ty, [x] * n)

        return ty(i64, i64), cg

    return scale


def accumulate(kv: KVFormat, n_rows: int, n: int) -> Any:
    """An operation (sums, line, scales, x, stride): the outer product of n x 16 lanes and n_rows scalars.

    sums[r * n + p] += lanes p of `line` * (f32 at x + r * stride), by fma, where there are scales after
    a multiplication by them.
    """

    @intrinsic
    def outer(typingctx: Any, sums: Any, line: Any, scales: Any, x: Any, stride: Any) -> Any:
        ty = group(f32x16, n_rows * n)

        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            lanes = []
            for p in range(n):
                value = kv.widen(b, b.add(a[1], v.I64(16 * kv.type.element_bytes * p)))
                lanes.append(b.fmul(value, b.extract_value(a[2], p)) if kv.type.header_bytes else value)
            out = []
            for r in range(n_rows):
                factor = splat(b, load(b, at(b, a[3], a[4], r), F32), f32x16.ll)
                out += [fma_ir(b, b.extract_value(a[0], r * n + p), lanes[p], factor) for p in range(n)]
            return c.make_tuple(b, ty, out)

        return ty(ty, i64, group(f32x16, n), i64, i64), cg

    return outer


def load_panel(n_rows: int, n: int) -> Any:
    """An operation (address, stride) -> sums, as `store_panel` leaves them."""

    @intrinsic
    def ld(typingctx: Any, addr: Any, stride: Any) -> Any:
        ty = group(f32x16, n_rows * n)

        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            places = [b.add(at(b, a[0], a[1], r), v.I64(64 * p)) for r in range(n_rows) for p in range(n)]
            return c.make_tuple(b, ty, [load(b, place, f32x16.ll) for place in places])

        return ty(i64, i64), cg

    return ld


def store_panel(n_rows: int, n: int) -> Any:
    """An operation (address, stride, sums): vector r * n + p goes to address + r * stride + 64 * p."""

    @intrinsic
    def st(typingctx: Any, addr: Any, stride: Any, sums: Any) -> Any:
        def cg(c: Any, b: Any, s: Any, a: Any) -> Any:
            for r in range(n_rows):
                for p in range(n):
                    store(b, b.add(at(b, a[0], a[1], r), v.I64(64 * p)), b.extract_value(a[2], r * n + p))
            return c.get_dummy_value()

        return void(i64, i64, group(f32x16, n_rows * n)), cg

    return st
