"""Operations that some hardware lacks, emulated so that no bit differs: f16 <-> f32 and the fused multiply-add.

Builders over LLVM values; the vocabulary's operations are made of them.
Source  Boldo and Melquiond 2008 (rounding to odd); TwoSum, Knuth 1969.
"""

from typing import Any

from llvmlite import ir

from chenxing.kernels.vectors import F16, F32, F64, I16, I32, I64, Target, call, const


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
    ity, sty, fty = (ir.VectorType(I32, n), ir.VectorType(I16, n), ir.VectorType(F32, n)) if vector else (I32, I16, F32)
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
