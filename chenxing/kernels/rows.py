"""Kernels over activation rows: RMS norm, gated activations and plain copies, each ending in the form that the next
matrix wants: int8 with a scale per 32 values (Q8), per 256 values (Q8K), for the row with its outliers apart (int8.py),
or f32.

A chunk is one row. As a prologue every thread makes all rows in its own scratch: the destination moves by
tid * EACH when the step has at most EACH_ROWS rows.
"""

from chenxing.kernels import layout as L
from chenxing.kernels import simd as v
from chenxing.kernels.int8 import quantise_int8
from chenxing.kernels.maths import gelu, silu, softcap
from chenxing.kernels.simd import kernel_inline

# argument slots, in bytes
SRC, SRC_ROW, N, DST, DST_ROW, EACH, WEIGHT, EPS, STEP, INDEX, SCRATCH, SCRATCH_EACH, SRC2 = range(0, 104, 8)


@kernel_inline
def _amax(src, n_vectors):
    """The largest |x| of n_vectors x 16 values."""
    top = v.fabs(v.ld_f32x16(src))
    for i in range(1, n_vectors):
        top = v.vmax(v.fabs(v.ld_f32x16(src + i * 64)), top)
    return v.hmax(top)


@kernel_inline
def _inverse(amax):
    """127 / amax, or 0 for a block of zeros."""
    if amax > v.f32(0.0):
        return v.f32(127.0) / amax
    return v.f32(0.0)


@kernel_inline
def quantise_q8(src, dst, n):
    """f32[n] -> Q8 blocks. q = round to nearest even(x * 127 / amax), d = amax / 127."""
    for b in range(n // 32):
        p = src + b * 128
        out = dst + b * L.Q8_BLOCK
        amax = _amax(p, 2)
        inv = v.splat_f32(_inverse(amax))
        q0 = v.round_i32(v.mul(v.ld_f32x16(p), inv))
        q1 = v.round_i32(v.mul(v.ld_f32x16(p + 64), inv))
        v.st_i8x16(out, q0)
        v.st_i8x16(out + 16, q1)
        total = v.hsum_i(v.add_i(q0, q1))
        d = v.f32(amax / v.f32(127.0))
        v.st_f32(out + L.Q8_D, d)
        v.st_f32(out + L.Q8_DSUM, v.f32(d * v.f32(total)))
        v.st_i32(out + L.Q8_SUM, total)


@kernel_inline
def quantise_q8k(src, dst, n):
    """f32[n] -> Q8K blocks, the same rounding over 256 values, and the sums of each 16 and 32."""
    for b in range(n // 256):
        p = src + b * 1024
        out = dst + b * L.Q8K_BLOCK
        amax = _amax(p, 16)
        inv = v.splat_f32(_inverse(amax))
        for i in range(0, 16, 2):
            q0 = v.round_i32(v.mul(v.ld_f32x16(p + i * 64), inv))
            q1 = v.round_i32(v.mul(v.ld_f32x16(p + i * 64 + 64), inv))
            v.st_i8x16(out + i * 16, q0)
            v.st_i8x16(out + i * 16 + 16, q1)
            s0 = v.hsum_i(q0)
            s1 = v.hsum_i(q1)
            v.st_i16(out + L.Q8K_SUMS + i * 2, s0)
            v.st_i16(out + L.Q8K_SUMS + i * 2 + 2, s1)
            v.st_i16(out + L.Q8K_SUMS32 + i, s0 + s1)
        v.st_f32(out + L.Q8K_D, v.f32(amax / v.f32(127.0)))


@kernel_inline
def copy_f32(src, dst, n):
    for i in range(0, n * 4, 64):
        v.st_f32x16(dst + i, v.ld_f32x16(src + i))


_FORMS = {"q8": quantise_q8, "q8k": quantise_q8k, "int8": quantise_int8, "f32": copy_f32}


@kernel_inline
def _source(args, row):
    """Address of the source row; INDEX, if any, is i64[n] of the rows that are wanted."""
    index = v.ld_i64(args + INDEX)
    r = row
    if index != 0:
        r = v.ld_i64(index + row * 8)
    return v.ld_i64(args + SRC) + r * v.ld_i64(args + SRC_ROW)


@kernel_inline
def _target(args, row, tid):
    dst = v.ld_i64(args + DST) + row * v.ld_i64(args + DST_ROW)
    if v.ld_i64(v.ld_i64(args + STEP) + 8 * L.N_ROWS) <= L.EACH_ROWS:
        dst += tid * v.ld_i64(args + EACH)
    return dst


@kernel_inline
def _scratch(args, tid):
    return v.ld_i64(args + SCRATCH) + tid * v.ld_i64(args + SCRATCH_EACH)


@kernel_inline
def rms_scale(x, n, eps):
    """1 / sqrt(mean(x^2) + eps): 16 lane sums by fma in ascending order, then the fixed tree."""
    acc = v.zero_f32()
    for i in range(0, n * 4, 64):
        a = v.ld_f32x16(x + i)
        acc = v.fma(acc, a, a)
    mean = v.f32(v.hsum(acc) / v.f32(n))
    return v.f32(v.f32(1.0) / v.sqrt_scalar(v.f32(mean + eps)))


@kernel_inline
def rms_norm_row(x, w, n, eps, dst):
    """dst = x * scale * w"""
    r = v.splat_f32(rms_scale(x, n, eps))
    for i in range(0, n * 4, 64):
        v.st_f32x16(dst + i, v.mul(v.mul(v.ld_f32x16(x + i), r), v.ld_f32x16(w + i)))


def norm(form):
    """RMS norm of SRC rows with WEIGHT, in `form`."""
    convert = _FORMS[form]

    def run(args, row, tid):
        n = v.ld_i64(args + N)
        tmp = _scratch(args, tid)
        rms_norm_row(_source(args, row), v.ld_i64(args + WEIGHT), n, v.ld_f32(args + EPS), tmp)
        convert(tmp, _target(args, row, tid), n)

    return run


def convert(form):
    """SRC rows in `form`."""
    convert = _FORMS[form]

    def run(args, row, tid):
        convert(_source(args, row), _target(args, row, tid), v.ld_i64(args + N))

    return run


def gated(activation, form):
    """activation(SRC) * SRC2 in `form`; rows of SRC2 are SRC_ROW apart too."""
    act = {"silu": silu, "gelu": gelu}[activation]
    convert = _FORMS[form]

    def run(args, row, tid):
        n = v.ld_i64(args + N)
        offset = row * v.ld_i64(args + SRC_ROW)
        g = v.ld_i64(args + SRC) + offset
        u = v.ld_i64(args + SRC2) + offset
        tmp = _scratch(args, tid)
        for i in range(0, n * 4, 64):
            v.st_f32x16(tmp + i, v.mul(act(v.ld_f32x16(g + i)), v.ld_f32x16(u + i)))
        convert(tmp, _target(args, row, tid), n)

    return run


def norm_add():
    """DST += RMS norm of SRC with WEIGHT (a norm after the matrix, before the residual)."""

    def run(args, row, tid):
        n = v.ld_i64(args + N)
        tmp = _scratch(args, tid)
        rms_norm_row(_source(args, row), v.ld_i64(args + WEIGHT), n, v.ld_f32(args + EPS), tmp)
        dst = v.ld_i64(args + DST) + row * v.ld_i64(args + DST_ROW)
        for i in range(0, n * 4, 64):
            v.st_f32x16(dst + i, v.add(v.ld_f32x16(dst + i), v.ld_f32x16(tmp + i)))

    return run


def cap():
    """(args, row, tid): SRC rows of N = softcap: x = c * tanh(x / c). Arguments: rows, stride, n, c, 1 / c (f32)."""

    def run(args, row, tid):
        x = v.ld_i64(args) + row * v.ld_i64(args + 8)
        c = v.splat_f32(v.ld_f32(args + 24))
        inverse = v.splat_f32(v.ld_f32(args + 32))
        for i in range(0, v.ld_i64(args + 16) * 4, 64):
            v.st_f32x16(x + i, softcap(v.ld_f32x16(x + i), c, inverse))

    return run
