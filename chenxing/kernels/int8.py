"""LLM.int8(): products of int8 weights and int8 activations with one scale a row each, outliers apart.

A value of a row of activations with |x| >= THRESHOLD is an outlier: it is quantised as 0 and multiplied with its
column of the weights as the file has them, in f32. Which values are outliers depends on their row alone, so that a row
has the same bits in every batch (law L1):
    y = (dw * dx) * f32(sum over k of qw * qx); then y = fma(column k, x, y) over the outliers in ascending k
The integer sum is exact in i32 over the whole row, if that has at most 2^31 / 127^2 values.

A row of activations   f32 dx, i32 sum of qx, i64 number of outliers, zeros up to 64 bytes; i8[n]; then for each outlier
                       an i32 k and the f32 x. There is room for n of them
A tile of 16 rows      f32 dw[16]; i64 bytes from here to its part of the first column, and from one column to the next;
                       zeros up to 128 bytes; q i8[n / 4][16 rows][4]
A matrix               its tiles, then the file's own values column by column. What every product reads lies together,
                       and of the other two thirds the system brings what outliers ask for into memory, no more

Source  Dettmers et al. 2022, "LLM.int8(): 8-bit Matrix Multiplication for Transformers at Scale", section 3 and
        equation 8. There a column is an outlier if any row of the batch has one in it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chenxing.kernels import layout as L
from chenxing.kernels import simd as v
from chenxing.kernels import simd_dot as dot
from chenxing.kernels.simd import kernel_inline
from chenxing.kernels.tiles import AHEAD

THRESHOLD = 6.0

_outside = v.outside(THRESHOLD)
_inside = v.inside(THRESHOLD)


@kernel_inline
def quantise_int8(src, dst, n):
    """f32[n] -> a row of activations; n is a multiple of 16. What is not a number is an outlier.

    qx = round to nearest even(x * 127 / amax), dx = amax / 127, with amax the largest |x| that is no outlier.
    """
    top = v.zero_f32()
    for i in range(0, n * 4, 64):
        top = v.vmax(v.fabs(_inside(v.ld_f32x16(src + i))), top)
    amax = v.hmax(top)
    inverse = v.f32(0.0)
    if amax > v.f32(0.0):
        inverse = v.f32(127.0) / amax
    total = 0
    n_outliers = 0
    outliers = dst + L.INT8_QUANTS + n
    for i in range(0, n, 16):
        x = v.ld_f32x16(src + i * 4)
        q = v.round_i32(v.mul(_inside(x), v.splat_f32(inverse)))
        v.st_i8x16(dst + L.INT8_QUANTS + i, q)
        total += v.hsum_i(q)
        if v.hsum_i(_outside(x)) != 0:
            for k in range(i, i + 16):
                value = v.ld_f32(src + k * 4)
                if not (abs(value) < v.f32(THRESHOLD)):
                    v.st_i32(outliers + n_outliers * L.INT8_OUTLIER, k)
                    v.st_f32(outliers + n_outliers * L.INT8_OUTLIER + 4, value)
                    n_outliers += 1
    v.st_f32(dst + L.INT8_D, v.f32(amax / v.f32(127.0)))
    v.st_i32(dst + L.INT8_SUM, total)
    v.st_i64(dst + L.INT8_N_OUTLIERS, n_outliers)


@dataclass(frozen=True)
class RowTile:
    """Kernel functions over one tile whose sums go over whole rows.

    n_bytes  of a tile for every k, after head_bytes
    gemv     function (w, x, n) -> group of one f32x16, for one row of activations of n values
    sums     n_rows -> function (w, x, stride, n, to): their integer sums, an i32x16 for each at `to`, 64 bytes apart
    row      function (w, x, n, sums) -> group of one f32x16: a row's products from its sums, outliers included
    """

    head_bytes: int
    n_bytes: int
    gemv: Callable
    sums: Callable
    row: Callable


def int8_tile(load: Callable) -> RowTile:
    """load(w) -> the 16 rows' weights of one k as f32x16."""
    vectors, dots = dot.vectors(8), dot.dot_signed(8)
    zero, one_sum, ld_sum = v.zeros_f32(1), v.zeros_i32(1), v.load_group(1, v.i32x16)

    @kernel_inline
    def finish(w, x, n, total):
        acc = v.add_scaled(zero(), total, v.ld_f32x16(w), x + L.INT8_D, 0)
        columns = w + v.ld_i64(w + L.INT8_COLUMNS)
        to_next = v.ld_i64(w + L.INT8_COLUMN)
        outlier = x + L.INT8_QUANTS + n
        for _ in range(v.ld_i64(x + L.INT8_N_OUTLIERS)):
            acc = v.rank1(acc, load(columns + v.ld_i32(outlier) * to_next), outlier + 4, 0)
            outlier += L.INT8_OUTLIER
        return acc

    @kernel_inline
    def gemv(w, x, n):
        total = dot.signed_start(one_sum(), x + L.INT8_SUM, 0)
        for k in range(0, n, 32):
            q = w + L.INT8_HEAD + k * 16
            for at in range(0, 512, 64):
                v.prefetch(q + AHEAD + at)
            total = dots(total, vectors(q), x + L.INT8_QUANTS + k, 0)
        return finish(w, x, n, total)

    def sums(n_rows: int) -> Any:
        zeros, st = v.zeros_i32(n_rows), v.store_group(n_rows)

        @kernel_inline
        def run(w, x, stride, n, to):
            total = dot.signed_start(zeros(), x + L.INT8_SUM, stride)
            for k in range(0, n, 32):
                total = dots(total, vectors(w + L.INT8_HEAD + k * 16), x + L.INT8_QUANTS + k, stride)
            st(to, 64, total)

        return run

    @kernel_inline
    def row(w, x, n, sums_at):
        return finish(w, x, n, ld_sum(sums_at, 64))

    return RowTile(L.INT8_HEAD, 16, gemv, sums, row)
