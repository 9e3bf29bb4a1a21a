"""Kernels that exist only to reach functions that kernels call; referred to as "kernels_under_test:name(...)"."""

from chenxing.kernels import maths
from chenxing.kernels import simd as v


def apply(name):
    """(args, chunk, tid): args is source, destination, n: f32[n] through a function of kernels/maths.py."""
    f = getattr(maths, name)

    def run(args, chunk, tid):
        src, dst = v.ld_i64(args), v.ld_i64(args + 8)
        for i in range(0, v.ld_i64(args + 16) * 4, 64):
            v.st_f32x16(dst + i, f(v.ld_f32x16(src + i)))

    return run


def apply_sincos():
    """(args, chunk, tid): args is source f64[n], destination f32[2, n] (sin, cos, rounded), n."""

    def run(args, chunk, tid):
        n = v.ld_i64(args + 16)
        for i in range(n):
            s, c = maths.sincos(v.ld_f64(v.ld_i64(args) + i * 8))
            v.st_f32(v.ld_i64(args + 8) + i * 4, v.f32(s))
            v.st_f32(v.ld_i64(args + 8) + (n + i) * 4, v.f32(c))

    return run


def apply_fma():
    """(args, chunk, tid): args is x, y, z, destination, n: x * y + z with one rounding."""

    def run(args, chunk, tid):
        for i in range(0, v.ld_i64(args + 32) * 4, 64):
            x = v.ld_f32x16(v.ld_i64(args) + i)
            y = v.ld_f32x16(v.ld_i64(args + 8) + i)
            z = v.ld_f32x16(v.ld_i64(args + 16) + i)
            v.st_f32x16(v.ld_i64(args + 24) + i, v.fma(z, x, y))

    return run


def apply_f16():
    """(args, chunk, tid): args is source f32[n], f16[n] destination, f32[n] of that widened again, n."""

    def run(args, chunk, tid):
        for i in range(0, v.ld_i64(args + 24), 16):
            half = v.ld_i64(args + 8) + i * 2
            v.st_f16x16(half, v.ld_f32x16(v.ld_i64(args) + i * 4))
            v.st_f32x16(v.ld_i64(args + 16) + i * 4, v.ld_f16x16(half))

    return run


def add_chunk():
    """(args, chunk, tid): args is the address of an i64 array, a stride in words, a value: array[chunk * stride] += it.

    Not atomic: a chunk that ran twice, or beside itself, is seen in the sum.
    """

    def run(args, chunk, tid):
        p = v.ld_i64(args) + chunk * v.ld_i64(args + 8) * 8
        v.st_i64(p, v.ld_i64(p) + v.ld_i64(args + 16))

    return run


def sum_all():
    """(args, chunk, tid): args is an array's address, its length, a destination: destination = sum of the array."""

    def run(args, chunk, tid):
        total = 0
        for i in range(v.ld_i64(args + 8)):
            total += v.ld_i64(v.ld_i64(args) + i * 8)
        v.st_i64(v.ld_i64(args + 16), total)

    return run
