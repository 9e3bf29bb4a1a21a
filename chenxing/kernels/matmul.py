"""Matrix times rows of quantised activations: the driver around every weight format's tile kernel (law L1).

A format gives `tile(n)`: a function (w, x, stride, n_blocks) -> group of n f32x16, the products of one packed tile of
16 weight rows with n activation rows. Each output element has one f32 accumulator, updated in ascending k, so n, the
chunk and the thread change no bit.
"""

from llvmlite import ir
from numba.extending import intrinsic

from chenxing.kernels import layout as L
from chenxing.kernels import simd as v
from chenxing.kernels.simd import LANES, Target

# argument slots of `linear`, in bytes
W, X, X_ROW, X_EACH, N_BLOCKS, N_TILES, PER_CHUNK, Y, Y_ROW, ADD, SCALE, BIAS, STEP, UNIT = range(0, 112, 8)
# and of `expert_linear` beyond them
EXPERTS, N_USED, EXPERT_BYTES, X_PER_SLOT = 112, 120, 128, 136
TOKEN_BLOCK = 32  # rows of activations that stay in L2 while the chunk's tiles pass


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


def linear(tile, tile_bytes):
    """The kernel y = x W^T of one format. `tile_bytes(n_blocks)` is the size of a packed tile.

    A chunk is PER_CHUNK tiles times all rows.
    """
    many = rows_together()
    tile_many, tile_one = tile(many), tile(1)

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
        size = tile_bytes(n_blocks)
        first = chunk * per
        last = min(first + per, v.ld_i64(args + N_TILES))
        for block in range(0, n_rows, TOKEN_BLOCK):
            stop = min(block + TOKEN_BLOCK, n_rows)
            for t in range(first, last):
                w = v.ld_i64(args + W) + t * size
                y = v.ld_i64(args + Y) + t * (4 * LANES)
                b = bias
                if bias != 0:
                    b += t * (4 * LANES)
                r = block
                while r + many <= stop:
                    _finish(y + r * y_row, y_row, tile_many(w, x + r * x_row, x_row, n_blocks), add, scale, b)
                    r += many
                while r < stop:
                    _finish(y + r * y_row, y_row, tile_one(w, x + r * x_row, x_row, n_blocks), add, scale, b)
                    r += 1

    return run


def expert_linear(tile, tile_bytes):
    """The kernel y[row, slot] = x W[expert of (row, slot)]^T of one format.

    EXPERTS i64[n_rows, N_USED]; x has a row per (row, slot) if X_PER_SLOT else per row; y has one per (row, slot).
    A chunk is PER_CHUNK tiles of one (row, slot).
    """
    tile_one = tile(1)

    def run(args, chunk, tid):
        n_used = v.ld_i64(args + N_USED)
        per = v.ld_i64(args + PER_CHUNK)
        n_tiles = v.ld_i64(args + N_TILES)
        per_pair = (n_tiles + per - 1) // per
        pair = chunk // per_pair
        first = (chunk % per_pair) * per
        n_blocks = v.ld_i64(args + N_BLOCKS)
        size = tile_bytes(n_blocks)
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
            _finish(y + t * (4 * LANES), y_row, tile_one(w + t * size, x, x_row, n_blocks), 0, v.f32(1.0), 0)

    return run


def fixed_size(block_bytes):
    """tile_bytes of a format whose tiles are n_blocks blocks of one size."""

    @v.kernel_inline
    def size(n_blocks):
        return n_blocks * block_bytes

    return size
