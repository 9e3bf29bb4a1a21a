"""Kernels that reach the parts of kernels/amx.py and amx_tiles.py without the rest of a product, which takes longer to
compile; referred to as "reference.amx_kernels:name(...)"."""

from chenxing.kernels import amx, matmul
from chenxing.kernels import simd as v
from chenxing.kernels.amx_tiles import on_amx
from chenxing.quants import QUANTS


def product(name):
    """(args): a packed tile, its blocks, activations, their stride, rows n <= 128, out f32[n, 16]: all rows by AMX."""
    tile = on_amx(QUANTS[name].tile())
    rows = matmul._many_rows(tile, tile.rows, matmul.AMX_ROW_BLOCK)
    configure = amx.configure(tile.depth)

    def run(args, chunk, tid):
        w, n_blocks, x = v.ld_i64(args), v.ld_i64(args + 8), v.ld_i64(args + 16)
        configure()
        rows(w, x, v.ld_i64(args + 24), n_blocks, v.ld_i64(args + 32), v.ld_i64(args + 40), 64, 0, v.f32(1.0), 0)
        amx.release()

    return run


def instructions(depth, unsigned):
    """(args): activations i8[16, 64], weights u8[16, 64], out i32[3, 16, 16]: an unused register, three times the
    product, the register cleared."""

    def build(b, x, w, out):
        sums, rows, weights = amx.SUMS[3], amx.ROWS[1], amx.WEIGHTS[1]
        amx.store(b, sums, out)
        amx.load(b, rows, x, v.I64(64))
        amx.load(b, weights, w, v.I64(64))
        for _ in range(3):
            amx.dot(b, sums, rows, weights, unsigned=bool(unsigned))
        amx.store(b, sums, b.add(out, v.I64(1024)))
        amx.zero(b, sums)
        amx.store(b, sums, b.add(out, v.I64(2048)))

    configure, multiply = amx.configure(depth), v.op(v.void, (v.i64,) * 3, build)

    def run(args, chunk, tid):
        configure()
        multiply(v.ld_i64(args), v.ld_i64(args + 8), v.ld_i64(args + 16))
        amx.release()

    return run
