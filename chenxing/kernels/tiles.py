"""Products of one packed tile of 16 weight rows with rows of activations, made of a format's own reading of its blocks.

A format says how a packed block is read (`SmallBlocks`, `SuperBlocks`); what is summed, and in which order
(law L1), is written here once. Two ways lead to the same operations for every output element:
    gemv    one row of activations: blocks are unpacked in registers, straight into the products
    gemm    more rows: some blocks are unpacked into scratch in L1, which then meets all rows, a few at a time
"""

from collections.abc import Callable
from dataclasses import dataclass

from chenxing.kernels import layout as L
from chenxing.kernels import simd as v
from chenxing.kernels import simd_dot as dot
from chenxing.kernels.simd import kernel_inline

AHEAD = 8192  # bytes between a weight's prefetch and its use
D, MIN = 0, 32  # in every packed block: f16[16] scales, then f16[16] minima where the format has them


@dataclass(frozen=True)
class Tile:
    """Kernel functions over one tile.

    n_bytes        a packed block of the tile
    x_bytes        the activations that meet it, of one row
    gemv           function (w, x, n_blocks) -> group of one f32x16, for one row of activations
    unit           blocks that are unpacked together, at most
    scratch_bytes  what they take
    unpack         function (w, scratch, count): `count` blocks, at most `unit`
    gemm           n -> function (scratch, count, x, stride, acc): n rows of f32x16 at acc, 64 bytes apart, go on
    blocks         what it was made of, if that is blocks of integers
    """

    n_bytes: int
    x_bytes: int
    gemv: Callable
    unit: int
    scratch_bytes: int
    unpack: Callable
    gemm: Callable
    blocks: "SmallBlocks | SuperBlocks | None" = None


@dataclass(frozen=True)
class SmallBlocks:
    """Blocks of 32 weights: w = d * (q - offset), plus the minimum where there is one.

    n_bytes   of a packed block
    quants    (w) -> group of 8 vectors: q of 4 consecutive k each
    largest   q is 0..largest; 0: q is a signed byte
    """

    n_bytes: int
    quants: Callable
    largest: int
    offset: int = 0
    minimum: bool = False


@dataclass(frozen=True)
class SuperBlocks:
    """Blocks of 256 weights in sub-blocks of 16 or 32: w = (d * sc) * (q - offset) - dmin * m.

    n_bytes   of a packed block
    sub       weights of a sub-block
    quants    (w, i) -> group of vectors: q of the two sub-blocks 2i and 2i + 1
    scales    (w, i) -> i32x16: their sc, as two i16 in each lane
    minima    (w, i) -> their m likewise, or None
    largest   q is 0..largest; 0: q is a signed byte
    largest_scale   of all sc, without their sign
    """

    n_bytes: int
    sub: int
    quants: Callable
    scales: Callable
    largest: int
    largest_scale: int
    offset: int = 0
    minima: Callable | None = None


def finish_small(minimum: bool) -> Callable:
    """The function (acc, total, d, m, x, stride) that adds a block's sums to acc."""

    @kernel_inline
    def plain(acc, total, d, m, x, stride):
        return v.add_scaled(acc, total, d, x + L.Q8_D, stride)

    @kernel_inline
    def with_minimum(acc, total, d, m, x, stride):
        return v.rank1(v.add_scaled(acc, total, d, x + L.Q8_D, stride), m, x + L.Q8_DSUM, stride)

    return with_minimum if minimum else plain


def finish_super(minima: bool) -> Callable:
    """The function (acc, total, corrected, d, m, x, stride) that adds a block's sums to acc."""

    @kernel_inline
    def plain(acc, total, corrected, d, m, x, stride):
        return v.add_scaled(acc, total, d, x + L.Q8K_D, stride)

    @kernel_inline
    def with_minima(acc, total, corrected, d, m, x, stride):
        acc = v.add_scaled(acc, total, d, x + L.Q8K_D, stride)
        return v.sub_scaled(acc, corrected, m, x + L.Q8K_D, stride)

    return with_minima if minima else plain


def small_blocks(f: SmallBlocks) -> Tile:
    """y = fma(d * dx, f32(sum of (q - offset) * x), y); y = fma(m, dx * sum of x, y)"""
    signed = f.largest == 0
    with_absolutes = signed and dot.absolutes_pay()
    d_at = 1024 if with_absolutes else 512
    unit, line = 8, d_at + 128  # of scratch: quants, perhaps their absolutes, d and m as f32
    put, load = dot.store_vectors(8), dot.vectors(8)
    quants, n_bytes, finish = f.quants, f.n_bytes, finish_small(f.minimum)
    start = dot.signed_start if signed else dot.offset_start(f.offset)

    def block(n):
        zeros, dots = v.zeros_i32(n), dot.dot_signed(8) if signed else dot.dot_unsigned(8, f.largest)

        @kernel_inline
        def add_block(acc, q, d, m, x, stride):
            return finish(acc, dots(start(zeros(), x + L.Q8_SUM, stride), q, x, stride), d, m, x, stride)

        return add_block

    m_at = MIN if f.minimum else D
    zero, add_to_one = v.zeros_f32(1), block(1)

    @kernel_inline
    def gemv(w, x, n_blocks):
        acc = zero()
        for _ in range(n_blocks):
            for at in range(0, n_bytes, 64):
                v.prefetch(w + AHEAD + at)
            acc = add_to_one(acc, quants(w), v.ld_f16x16(w), v.ld_f16x16(w + m_at), x, 0)
            w += n_bytes
            x += L.Q8_BLOCK
        return acc

    @kernel_inline
    def put_both(scratch, q):
        put(scratch, q)
        put(scratch + 512, dot.absolutes(q))

    keep = put_both if with_absolutes else put

    @kernel_inline
    def unpack(w, scratch, count):
        for _ in range(count):
            for at in range(0, n_bytes, 64):
                v.prefetch(w + AHEAD + at)
            keep(scratch, quants(w))
            v.st_f32x16(scratch + d_at, v.ld_f16x16(w))
            v.st_f32x16(scratch + d_at + 64, v.ld_f16x16(w + m_at))
            w += n_bytes
            scratch += line

    def gemm(n):
        add_loaded, ld, st = block(n), v.load_group(n), v.store_group(n)
        zeros, dots = v.zeros_i32(n), dot.dot_stored(8)

        @kernel_inline
        def load_and_add(acc, scratch, d, m, x, stride):
            return add_loaded(acc, load(scratch), d, m, x, stride)

        @kernel_inline
        def add_stored(acc, scratch, d, m, x, stride):
            return finish(acc, dots(zeros(), scratch, x, stride), d, m, x, stride)

        add_block = add_stored if with_absolutes else load_and_add

        @kernel_inline
        def run(scratch, count, x, stride, acc_at):
            acc = ld(acc_at, 64)
            for _ in range(count):
                acc = add_block(acc, scratch, v.ld_f32x16(scratch + d_at), v.ld_f32x16(scratch + d_at + 64), x, stride)
                scratch += line
                x += L.Q8_BLOCK
            st(acc_at, 64, acc)

        return run

    return Tile(n_bytes, L.Q8_BLOCK, gemv, unit, unit * line, unpack, gemm, f)


def super_blocks(f: SuperBlocks) -> Tile:
    """y = fma(d * dx, f32(sum of sc * (sum of (q - offset) * x)), y); y = fma(-(dmin * dx), f32(sum of m * x), y)"""
    sub, n_bytes, quants, scales = f.sub, f.n_bytes, f.quants, f.scales
    steps, n_sub, n_pairs = sub // 4, 256 // sub, 128 // sub
    sums = L.Q8K_SUMS if sub == 16 else L.Q8K_SUMS32
    keep, load = dot.store_vectors(2 * steps), dot.vectors(steps)
    offset = f.offset if f.largest else dot.signed_offset()
    has_minima = f.minima is not None
    corrections = f.minima or f.scales
    m_at = MIN if has_minima else D
    scales_at, corrections_at, d_at = 4096, 4096 + 64 * n_sub, 4096 + 64 * n_sub + 64 * n_pairs

    def products(first):
        return dot.dot_scaled(steps, first, f.largest)

    # the sums of one block, added to acc

    without_offset = finish_super(has_minima)

    @kernel_inline
    def with_offset(acc, total, corrected, d, m, x, stride):
        return without_offset(acc, v.mul_add(total, corrected, v.splat_i32(-offset)), corrected, d, m, x, stride)

    finish = with_offset if offset and not has_minima else without_offset

    # one pair of sub-blocks' part of what the minima or the offset take away

    @kernel_inline
    def correction(sum_, pairs, x, i, stride):
        return dot.dot_pairs(sum_, pairs, x + sums + i * 4, stride)

    @kernel_inline
    def no_correction(sum_, pairs, x, i, stride):
        return sum_

    correct = correction if has_minima or offset else no_correction
    zero, izero, even, odd = v.zeros_f32(1), v.zeros_i32(1), products(0), products(steps)
    lines = n_bytes // n_pairs

    @kernel_inline
    def gemv(w, x, n_blocks):
        acc = zero()
        for _ in range(n_blocks):
            total = izero()
            corrected = izero()
            for i in range(n_pairs):
                for at in range(0, lines, 64):
                    v.prefetch(w + AHEAD + i * lines + at)
                q = quants(w, i)
                sc = scales(w, i)
                total = even(total, q, dot.both_even(sc), x + i * 2 * sub, 0)
                total = odd(total, q, dot.both_odd(sc), x + i * 2 * sub + sub, 0)
                corrected = correct(corrected, corrections(w, i), x, i, 0)
            acc = finish(acc, total, corrected, v.ld_f16x16(w), v.ld_f16x16(w + m_at), x, 0)
            w += n_bytes
            x += L.Q8K_BLOCK
        return acc

    @kernel_inline
    def unpack(w, scratch, count):
        for i in range(n_pairs):
            for at in range(0, lines, 64):
                v.prefetch(w + AHEAD + i * lines + at)
            keep(scratch + i * 128 * steps, quants(w, i))
            sc = scales(w, i)
            v.st_i32x16(scratch + scales_at + i * 128, dot.both_even(sc))
            v.st_i32x16(scratch + scales_at + i * 128 + 64, dot.both_odd(sc))
            v.st_i32x16(scratch + corrections_at + i * 64, corrections(w, i))
        v.st_f32x16(scratch + d_at, v.ld_f16x16(w))
        v.st_f32x16(scratch + d_at + 64, v.ld_f16x16(w + m_at))

    def gemm(n):
        izeros, ld, st, some = v.zeros_i32(n), v.load_group(n), v.store_group(n), products(0)

        @kernel_inline
        def run(scratch, count, x, stride, acc_at):
            total = izeros()
            for s in range(n_sub):
                sc = v.ld_i32x16(scratch + scales_at + s * 64)
                total = some(total, load(scratch + s * 64 * steps), sc, x + s * sub, stride)
            corrected = izeros()
            for i in range(n_pairs):
                corrected = correct(corrected, v.ld_i32x16(scratch + corrections_at + i * 64), x, i, stride)
            d, m = v.ld_f32x16(scratch + d_at), v.ld_f32x16(scratch + d_at + 64)
            st(acc_at, 64, finish(ld(acc_at, 64), total, corrected, d, m, x, stride))

        return run

    return Tile(n_bytes, L.Q8K_BLOCK, gemv, 1, d_at + 128, unpack, gemm, f)
