"""exp, tanh and the activations built on them, and sin and cos: our own polynomials, never libm (law L3).

Only additions, multiplications, fma and integer shifts: the same bits on every machine with IEEE arithmetic.
Error bounds (tested): exp2 and exp below 1 ulp, tanh below 2 and silu below 4, sincos 1e-13 absolute for |x| < 2^20.
Source  exp: Cody and Waite range reduction, own minimax polynomials (least squares with Lawson's weights); sincos:
Taylor polynomials on [-pi/4, pi/4], whose truncation is below f64's rounding at degrees 17 and 16.
"""

from typing import Any

from chenxing.kernels import simd as v
from chenxing.kernels.simd import const, f32x16, i32x16, kernel_inline, op

MAGIC = 12582912.0 + 127.0  # 1.5 * 2^23 + the exponent's bias: an addition rounds and leaves n in the low bits


def _exponent_bits(b: Any, x: Any) -> Any:
    """The low 8 bits of a magic sum as a power of two."""
    return b.bitcast(b.shl(b.bitcast(x, i32x16.ll), const(i32x16.ll, 23)), f32x16.ll)


_power = op(f32x16, (f32x16,), _exponent_bits)
_magic, _log2e, _one = v.constant(MAGIC), v.constant(1.4426950408889634), v.constant(1.0)
_ln2_hi, _ln2_lo = v.constant(-0.693359375), v.constant(2.12194440e-4)
_exp2_low, _exp_low, _exp_high = v.constant(-127.0), v.constant(-88.02969), v.constant(88.0)
# 2^f = 1 + f * p(f) on [-1/2, 1/2] and e^r = 1 + r + r^2 * q(r) on [-ln2/2, ln2/2]
_p1, _p2, _p3 = v.constant(0.693147202857122), v.constant(0.2402264791333895), v.constant(0.05550332467873433)
_p4, _p5, _p6 = v.constant(0.00961843737699124), v.constant(0.0013398875441376777), v.constant(0.00015353359145336252)
_q2, _q3, _q4 = v.constant(0.4999999334593399), v.constant(0.16666519125100424), v.constant(0.0416684058235327)
_q5, _q6 = v.constant(0.008368899135696387), v.constant(0.001381421702627494)


@kernel_inline
def exp2(x):
    """2^x for x <= 127; exactly 0 for x <= -126.5, so that masked scores need no select."""
    x = v.vmax(x, _exp2_low())
    t = v.add(x, _magic())
    f = v.sub(x, v.sub(t, _magic()))
    p = v.fma(_p5(), _p6(), f)
    p = v.fma(_p4(), p, f)
    p = v.fma(_p3(), p, f)
    p = v.fma(_p2(), p, f)
    p = v.fma(_p1(), p, f)
    p = v.fma(_one(), p, f)
    return v.mul(p, _power(t))


@kernel_inline
def exp(x):
    """e^x for x <= 88 (larger are taken as 88); exactly 0 below -88.03."""
    x = v.vmin(v.vmax(x, _exp_low()), _exp_high())
    t = v.fma(_magic(), x, _log2e())
    n = v.sub(t, _magic())
    r = v.fma(x, n, _ln2_hi())
    r = v.fma(r, n, _ln2_lo())
    p = v.fma(_q5(), _q6(), r)
    p = v.fma(_q4(), p, r)
    p = v.fma(_q3(), p, r)
    p = v.fma(_q2(), p, r)
    p = v.fma(_one(), p, r)
    p = v.fma(_one(), p, r)
    return v.mul(p, _power(t))


_zero, _two = v.constant(0.0), v.constant(2.0)
# tanh x = x + x^3 t(x^2) on |x| < 0.625, relative error 6e-9
_t0, _t1, _t2 = v.constant(-0.33333269517275255), v.constant(0.13331092258042115), v.constant(-0.053709657808705166)
_t3, _t4 = v.constant(0.020538820772603775), v.constant(-0.005591016839818102)
_small = v.constant(0.625)


@kernel_inline
def tanh(x):
    """tanh: a polynomial near 0, where 1 - 2 / (e^2x + 1) would cancel, that formula elsewhere."""
    a = v.fabs(x)
    z = v.mul(a, a)
    p = v.fma(_t3(), _t4(), z)
    p = v.fma(_t2(), p, z)
    p = v.fma(_t1(), p, z)
    p = v.fma(_t0(), p, z)
    near = v.fma(a, v.mul(p, z), a)
    far = v.sub(_one(), v.div(_two(), v.add(exp(v.mul(a, _two())), _one())))
    return v.copysign(_select_gt(_small(), a, near, far), x)


_select_gt = op(f32x16, (f32x16,) * 4, lambda b, i, j, x, y: b.select(b.fcmp_ordered(">", i, j), x, y))
_gelu_a, _gelu_b, _half = v.constant(0.044715), v.constant(0.7978845608028654), v.constant(0.5)


@kernel_inline
def silu(x):
    """x / (1 + e^-x)"""
    return v.div(x, v.add(_one(), exp(v.sub(_zero(), x))))


@kernel_inline
def gelu(x):
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): ggml's GELU and PyTorch's tanh approximation."""
    inner = v.mul(_gelu_b(), v.fma(x, v.mul(_gelu_a(), v.mul(x, x)), x))
    return v.mul(v.mul(_half(), x), v.add(_one(), tanh(inner)))


@kernel_inline
def softcap(x, cap, inverse):
    """cap * tanh(x / cap)"""
    return v.mul(cap, tanh(v.mul(x, inverse)))


# pi/2 in three parts of at most 33 bits: n * part is exact for n < 2^20 (fdlibm's constants for the same purpose)
_PIO2_1, _PIO2_2, _PIO2_3 = 1.57079632673412561417e00, 6.07710050630396597660e-11, 2.02226624879595063154e-21
_S = (-1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800, 1 / 6227020800, -1 / 1307674368000, 1 / 355687428096000)
_C = (-1 / 2, 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800, 1 / 479001600, -1 / 87178291200, 1 / 20922789888000)


@kernel_inline
def sincos(x):
    """(sin x, cos x) in f64 for |x| < 2^20."""
    n = v.rint_f64(x * 0.63661977236758134308)
    r = ((x - n * _PIO2_1) - n * _PIO2_2) - n * _PIO2_3
    z = r * r
    s = _S[7]
    c = _C[7]
    for i in range(6, -1, -1):
        s = s * z + _S[i]
        c = c * z + _C[i]
    s = r + r * z * s
    c = 1.0 + z * c
    q = v.i64(n) & 3
    if q == 0:
        return s, c
    if q == 1:
        return c, -s
    if q == 2:
        return -s, -c
    return -c, s
