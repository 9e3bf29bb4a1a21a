"""Kernels that are made for one weight format: products and the embedding look-up."""

from chenxing.kernels import matmul
from chenxing.kernels import simd as v
from chenxing.quants import INT8, QUANTS

_FORMATS = {**QUANTS, **{q.name: q for q in INT8.values()}}

# argument slots of `embed`, in bytes
WEIGHTS, ROW_BYTES, N, TOKENS, DST, DST_ROW, SCALE = range(0, 56, 8)


def linear(name):
    """kernels/matmul.py's `linear` for a format."""
    return matmul.linear(_FORMATS[name].tile())


def expert_linear(name):
    """kernels/matmul.py's `expert_linear` for a format."""
    return matmul.expert_linear(_FORMATS[name].tile())


def grouped_linear(name):
    """kernels/matmul.py's `grouped_linear` for a format."""
    return matmul.grouped_linear(_FORMATS[name].tile())


def embed(name):
    """(args, row, tid): DST row = row TOKENS[row] of the file's own table, decoded, times SCALE f32."""
    q = QUANTS[name]
    block, size, width = q.decode(), q.type.type_size, q.type.block_size

    def run(args, row, tid):
        n = v.ld_i64(args + N)
        src = v.ld_i64(args + WEIGHTS) + v.ld_i64(v.ld_i64(args + TOKENS) + row * 8) * v.ld_i64(args + ROW_BYTES)
        dst = v.ld_i64(args + DST) + row * v.ld_i64(args + DST_ROW)
        for b in range(n // width):
            block(src + b * size, dst + b * width * 4)
        scale = v.splat_f32(v.ld_f32(args + SCALE))
        for i in range(0, n * 4, 64):
            v.st_f32x16(dst + i, v.mul(v.ld_f32x16(dst + i), scale))

    return run
