"""Matrix times rows of quantised activations: the driver around every weight format's tile kernel (law L1).

A format gives a tile (tiles.py). Each output element has one f32 accumulator, updated in ascending k, so the number of
rows, the chunk and the thread change no bit.
"""

from llvmlite import ir
from numba.extending import intrinsic

from chenxing.kernels import amx
from chenxing.kernels import layout as L
from chenxing.kernels import simd as v
from chenxing.kernels.amx_tiles import on_amx
from chenxing.kernels.int8 import RowTile
from chenxing.kernels.simd import LANES, Target

# argument slots of `linear`, in bytes
W, X, X_ROW, X_EACH, N_BLOCKS, N_TILES, PER_CHUNK, Y, Y_ROW, ADD, SCALE, BIAS, STEP, UNIT = range(0, 112, 8)
# of the experts' kernels: those up to Y_ROW, then
EXPERT_BYTES, CHOSEN, SHARING, STARTS = 72, 80, 88, 80
ROW_BLOCK = 64  # rows of activations that share an unpacked block
AMX_ROW_BLOCK = 128  # there unpacking is more of the work


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
    product, size_of = _product(tile), _size_of(tile)

    def run(args, chunk, tid):
        n_rows = v.ld_i64(v.ld_i64(args + STEP) + 8 * v.ld_i64(args + UNIT))
        x = v.ld_i64(args + X)
        if n_rows <= L.EACH_ROWS:
            x += tid * v.ld_i64(args + X_EACH)
        n_blocks = v.ld_i64(args + N_BLOCKS)
        per = v.ld_i64(args + PER_CHUNK)
        first = chunk * per
        n_tiles = min(per, v.ld_i64(args + N_TILES) - first)
        w = v.ld_i64(args + W) + first * size_of(n_blocks)
        y = v.ld_i64(args + Y) + first * (4 * LANES)
        bias = v.ld_i64(args + BIAS)
        if bias != 0:
            bias += first * (4 * LANES)
        x_row, y_row = v.ld_i64(args + X_ROW), v.ld_i64(args + Y_ROW)
        add, scale = v.ld_i64(args + ADD), v.ld_f32(args + SCALE)
        product(w, n_tiles, n_blocks, x, x_row, n_rows, y, y_row, add, scale, bias)

    return run


def _size_of(tile):
    """A function (n_blocks): bytes of a tile."""
    head, n_bytes = tile.head_bytes if isinstance(tile, RowTile) else 0, tile.n_bytes

    @v.kernel_inline
    def size(n_blocks):
        return head + n_blocks * n_bytes

    return size


def _product(tile):
    """n_tiles tiles at w times n_rows rows at x; y and bias are those of the first tile."""
    if isinstance(tile, RowTile):
        return _in_row_blocks(tile, _whole_rows(tile), ROW_BLOCK)
    by_vectors = _in_row_blocks(tile, _by_vectors(tile), ROW_BLOCK)
    if not (Target.isa.amx and tile.blocks):
        return by_vectors
    few_rows, amx_tile = rows_together(), on_amx(tile)
    by_amx = _in_row_blocks(tile, _many_rows(amx_tile, amx_tile.rows, AMX_ROW_BLOCK), AMX_ROW_BLOCK)
    configure = amx.configure(amx_tile.depth)

    @v.kernel_inline
    def run(w, n_tiles, n_blocks, x, x_row, n_rows, y, y_row, add, scale, bias):
        if n_rows > few_rows:
            configure()
            by_amx(w, n_tiles, n_blocks, x, x_row, n_rows, y, y_row, add, scale, bias)
            amx.release()
        else:
            by_vectors(w, n_tiles, n_blocks, x, x_row, n_rows, y, y_row, add, scale, bias)

    return run


def _in_row_blocks(tile, one_tile, row_block):
    """The product, `row_block` rows of activations at a time; one_tile is what `_many_rows` returns."""
    size_of = _size_of(tile)

    @v.kernel_inline
    def run(w, n_tiles, n_blocks, x, x_row, n_rows, y, y_row, add, scale, bias):
        size = size_of(n_blocks)
        for block in range(0, n_rows, row_block):
            n = min(row_block, n_rows - block)
            x_block = x + block * x_row
            for t in range(n_tiles):
                y_tile = y + t * (4 * LANES) + block * y_row
                b = bias
                if bias != 0:
                    b += t * (4 * LANES)
                one_tile(w + t * size, x_block, x_row, n_blocks, n, y_tile, y_row, add, scale, b)

    return run


def _by_vectors(tile):
    """One tile with n rows: by the tile's gemv if it is one row, in groups otherwise."""
    one, many = tile.gemv, _many_rows(tile, _in_groups(tile), ROW_BLOCK)

    @v.kernel_inline
    def run(w, x, x_row, n_blocks, n, y, y_row, add, scale, bias):
        if n > 1:
            many(w, x, x_row, n_blocks, n, y, y_row, add, scale, bias)
        else:
            _finish(y, y_row, one(w, x, n_blocks), add, scale, bias)

    return run


def _many_rows(tile, rows, most):
    """One tile with n rows of activations, at most `most`: weights are unpacked once for all of them.

    rows    function (scratch, count, x, stride, acc, n): n rows of f32x16 at acc go on, in whole groups. What follows
            the last row in memory (SPARE_ROWS) is multiplied too, and forgotten.
    """
    unit, n_bytes, x_bytes, unpack = tile.unit, tile.n_bytes, tile.x_bytes, tile.unpack
    spare = L.SPARE_ROWS
    scratch_of, acc_of = stack(tile.scratch_bytes), stack((most + spare) * 64)
    load = v.load_group(1)

    @v.kernel_inline
    def run(w, x, x_row, n_blocks, n, y, y_row, add, scale, bias):
        scratch = scratch_of()
        acc = acc_of()
        for r in range(n + spare):
            v.st_f32x16(acc + r * 64, v.zero_f32())
        for at in range(0, n_blocks, unit):
            count = min(unit, n_blocks - at)
            unpack(w + at * n_bytes, scratch, count)
            rows(scratch, count, x + at * x_bytes, x_row, acc, n)
        for r in range(n):
            _finish(y + r * y_row, y_row, load(acc + r * 64, 64), add, scale, bias)

    return run


def _in_groups(tile):
    """The tile's gemm for n rows, as many at a time as registers hold."""
    n_group = rows_together()
    assert n_group <= L.SPARE_ROWS + 1
    group = tile.gemm(n_group)

    @v.kernel_inline
    def run(scratch, count, x, stride, acc, n):
        for r in range(0, n, n_group):
            group(scratch, count, x + r * stride, stride, acc + r * 64)

    return run


def _whole_rows(tile):
    """One tile with n rows: by its gemv if it is one row, else sums of a group of rows, then each row's products."""
    n_group = rows_together()
    assert n_group <= L.SPARE_ROWS + 1
    one, sums, finish_row, sums_of = tile.gemv, tile.sums(n_group), tile.row, stack(n_group * 64)

    @v.kernel_inline
    def run(w, x, x_row, n_blocks, n, y, y_row, add, scale, bias):
        if n == 1:
            _finish(y, y_row, one(w, x, n_blocks), add, scale, bias)
            return
        at = sums_of()
        for first in range(0, n, n_group):
            sums(w, x + first * x_row, x_row, n_blocks, at)
            for r in range(first, min(first + n_group, n)):
                values = finish_row(w, x + r * x_row, n_blocks, at + (r - first) * 64)
                _finish(y + r * y_row, y_row, values, add, scale, bias)

    return run


def stack(n_bytes: int):
    """An operation that gives the address of n_bytes of the stack, on a cache line; one for each use in a kernel."""

    def build(b):
        with b.goto_entry_block():  # not by numba's alloca_once, which fills it with zeros, byte by byte
            place = b.alloca(ir.ArrayType(ir.IntType(8), n_bytes))
        place.align = L.ALIGN
        return b.ptrtoint(place, v.I64)

    return v.op(v.i64, (), build)


def expert_linear(tile):
    """The kernel y[pair] = x W[CHOSEN[pair]]^T of one format, for steps of few rows: each pair of (row, slot) alone.

    CHOSEN i64[n_pairs]; SHARING pairs in a row read the same row of x; y has one per pair.
    A chunk is PER_CHUNK tiles of one pair.
    """
    one, size_of = tile.gemv, _size_of(tile)

    def run(args, chunk, tid):
        per = v.ld_i64(args + PER_CHUNK)
        n_tiles = v.ld_i64(args + N_TILES)
        per_pair = (n_tiles + per - 1) // per
        pair = chunk // per_pair
        first = (chunk % per_pair) * per
        n_blocks = v.ld_i64(args + N_BLOCKS)
        size = size_of(n_blocks)
        expert = v.ld_i64(v.ld_i64(args + CHOSEN) + pair * 8)
        x_row = v.ld_i64(args + X_ROW)
        x = v.ld_i64(args + X) + tid * v.ld_i64(args + X_EACH) + pair // v.ld_i64(args + SHARING) * x_row
        w = v.ld_i64(args + W) + expert * v.ld_i64(args + EXPERT_BYTES)
        y_row = v.ld_i64(args + Y_ROW)
        y = v.ld_i64(args + Y) + pair * y_row
        for t in range(first, min(first + per, n_tiles)):
            _finish(y + t * (4 * LANES), y_row, one(w + t * size, x, n_blocks), 0, v.f32(1.0), 0)

    return run


def grouped_linear(tile):
    """The kernel y[i] = x[i] W[expert of i]^T of one format, for rows that lie sorted by expert.

    STARTS i64[n_expert + 1]: the rows of expert e are STARTS[e] up to STARTS[e + 1], perhaps none.
    A chunk is PER_CHUNK tiles of one expert times all its rows.
    """
    product, size_of = _product(tile), _size_of(tile)

    def run(args, chunk, tid):
        per = v.ld_i64(args + PER_CHUNK)
        n_tiles = v.ld_i64(args + N_TILES)
        per_expert = (n_tiles + per - 1) // per
        expert = chunk // per_expert
        starts = v.ld_i64(args + STARTS) + expert * 8
        start = v.ld_i64(starts)
        n_rows = v.ld_i64(starts + 8) - start
        if n_rows == 0:
            return
        first = (chunk % per_expert) * per
        n_blocks = v.ld_i64(args + N_BLOCKS)
        x_row, y_row = v.ld_i64(args + X_ROW), v.ld_i64(args + Y_ROW)
        w = v.ld_i64(args + W) + expert * v.ld_i64(args + EXPERT_BYTES) + first * size_of(n_blocks)
        x = v.ld_i64(args + X) + start * x_row
        y = v.ld_i64(args + Y) + start * y_row + first * (4 * LANES)
        product(w, min(per, n_tiles - first), n_blocks, x, x_row, n_rows, y, y_row, 0, v.f32(1.0), 0)

    return run
