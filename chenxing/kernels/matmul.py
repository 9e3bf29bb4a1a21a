"""Matrix times rows of quantised activations: the driver around every weight format's tile kernel (law L1).

A format gives a tile (tiles.py). Each output element has one f32 accumulator, updated in ascending k, so the number of
rows, the chunk and the thread change no bit.
"""

from llvmlite import ir
from numba.extending import intrinsic

from chenxing.kernels import layout as L
from chenxing.kernels import simd as v
from chenxing.kernels.simd import LANES, Target
from chenxing.kernels.tiles import stack

# argument slots of `linear`, in bytes
W, X, X_ROW, X_EACH, N_BLOCKS, N_TILES, PER_CHUNK, Y, Y_ROW, ADD, SCALE, BIAS, STEP, UNIT = range(0, 112, 8)
# and of `expert_linear` beyond them
EXPERTS, N_USED, EXPERT_BYTES, X_PER_SLOT = 112, 120, 128, 136
TOKEN_BLOCK = 64  # rows of activations that share an unpacked block


def rows_together() -> int:
    """Activation rows that share a weight register: as many as the registers hold."""
    return {512: 8, 256: 4, 128: 2}[Target.isa.bits]


@intrinsic
def _finish(typingctx, addr, stride, values, add, scale, bias):
    """y[t] = (add ? y[t] : 0) + (values[t] + bias) * scale, the last by fma; bias 0 is none."""

    def cg(c, b, s, a):
        f = v.f32x16.ll
        y_add = b.icmp_signed("!=", a[3], ir.Constant(a[3].type, 0))
        has_bias = b.icmp_signed("!=", a[5], ir.Constant(a[5].type, 0))
        bias_at = b.select(has_bias, a[5], a[0])
        bias_v = b.select(has_bias, v.load(b, bias_at, f), v.const(f, 0.0))
        scale_v = v.splat(b, a[4], f)
        for t in range(values.count):
            where = v.at(b, a[0], a[1], t)
            old = b.select(y_add, v.load(b, where, f), v.const(f, -0.0))
            v.store(b, where, v.fma_ir(b, old, b.fadd(b.extract_value(a[2], t), bias_v), scale_v))
        return c.get_dummy_value()

    return v.void(v.i64, v.i64, values, v.i64, v.f32, v.i64), cg


def linear(tile):
    """The kernel y = x W^T of one format. A chunk is PER_CHUNK tiles times all rows."""
    one, many, n_bytes = tile.gemv(1), _many_rows(tile), tile.n_bytes

    def run(args, chunk, tid):
        n_rows = v.ld_i64(v.ld_i64(args + STEP) + 8 * v.ld_i64(args + UNIT))
        x = v.ld_i64(args + X)
        if n_rows <= L.EACH_ROWS:
            x += tid * v.ld_i64(args + X_EACH)
        x_row = v.ld_i64(args + X_ROW)
        y_row = v.ld_i64(args + Y_ROW)
        n_blocks = v.ld_i64(args + N_BLOCKS)
        per = v.ld_i64(args + PER_CHUNK)
        add = v.ld_i64(args + ADD)
        scale = v.ld_f32(args + SCALE)
        bias = v.ld_i64(args + BIAS)
        size = n_blocks * n_bytes
        first = chunk * per
        last = min(first + per, v.ld_i64(args + N_TILES))
        for block in range(0, n_rows, TOKEN_BLOCK):
            stop = min(block + TOKEN_BLOCK, n_rows)
            for t in range(first, last):
                w = v.ld_i64(args + W) + t * size
                y = v.ld_i64(args + Y) + t * (4 * LANES) + block * y_row
                b = bias
                if bias != 0:
                    b += t * (4 * LANES)
                if stop - block > 1:
                    many(w, x + block * x_row, x_row, n_blocks, stop - block, y, y_row, add, scale, b)
                else:
                    _finish(y, y_row, one(w, x + block * x_row, x_row, n_blocks), add, scale, b)

    return run


def _many_rows(tile):
    """One tile with n rows of activations: weights are unpacked once for all of them.

    The last group may be of fewer rows: what follows them in memory is multiplied too, and forgotten.
    """
    n_group = rows_together()
    assert n_group <= L.SPARE_ROWS
    group = tile.gemm(n_group)
    unit, n_bytes, x_bytes, unpack = tile.unit, tile.n_bytes, tile.x_bytes, tile.unpack
    scratch_of, acc_of = stack(tile.scratch_bytes), stack((TOKEN_BLOCK + n_group) * 64)
    load = v.load_group(1)

    @v.kernel_inline
    def run(w, x, x_row, n_blocks, n, y, y_row, add, scale, bias):
        scratch = scratch_of()
        acc = acc_of()
        for r in range(n + n_group):
            v.st_f32x16(acc + r * 64, v.zero_f32())
        for at in range(0, n_blocks, unit):
            count = min(unit, n_blocks - at)
            unpack(w + at * n_bytes, scratch, count)
            part = x + at * x_bytes
            for r in range(0, n, n_group):
                group(scratch, count, part + r * x_row, x_row, acc + r * 64)
        for r in range(n):
            _finish(y + r * y_row, y_row, load(acc + r * 64, 64), add, scale, bias)

    return run


def expert_linear(tile):
    """The kernel y[row, slot] = x W[expert of (row, slot)]^T of one format.

    EXPERTS i64[n_rows, N_USED]; x has a row per (row, slot) if X_PER_SLOT else per row; y has one per (row, slot).
    A chunk is PER_CHUNK tiles of one (row, slot).
    """
    one, n_bytes = tile.gemv(1), tile.n_bytes

    def run(args, chunk, tid):
        n_used = v.ld_i64(args + N_USED)
        per = v.ld_i64(args + PER_CHUNK)
        n_tiles = v.ld_i64(args + N_TILES)
        per_pair = (n_tiles + per - 1) // per
        pair = chunk // per_pair
        first = (chunk % per_pair) * per
        n_blocks = v.ld_i64(args + N_BLOCKS)
        size = n_blocks * n_bytes
        expert = v.ld_i64(v.ld_i64(args + EXPERTS) + pair * 8)
        x_row = v.ld_i64(args + X_ROW)
        x = v.ld_i64(args + X)
        if v.ld_i64(args + X_PER_SLOT) != 0:
            x += pair * x_row
        else:
            if v.ld_i64(v.ld_i64(args + STEP) + 8 * L.N_ROWS) <= L.EACH_ROWS:
                x += tid * v.ld_i64(args + X_EACH)
            x += pair // n_used * x_row
        w = v.ld_i64(args + W) + expert * v.ld_i64(args + EXPERT_BYTES)
        y_row = v.ld_i64(args + Y_ROW)
        y = v.ld_i64(args + Y) + pair * y_row
        for t in range(first, min(first + per, n_tiles)):
            _finish(y + t * (4 * LANES), y_row, one(w + t * size, x, x_row, n_blocks), 0, v.f32(1.0), 0)

    return run
