"""Products of one tile of 16 rows of float weights with rows of f32 activations (tiles.py has those of blocks)."""

from collections.abc import Callable

from chenxing.kernels import simd as v
from chenxing.kernels.simd import kernel_inline
from chenxing.kernels.tiles import AHEAD, Tile


def floats(n_bytes: int, load: Callable) -> Tile:
    """y = fma(w, x, y) over ascending k; load(w) -> the 16 rows' weights of one k as f32x16."""
    unit = 64

    zero = v.zeros_f32(1)

    @kernel_inline
    def gemv(w, x, n_blocks):
        acc = zero()
        for i in range(n_blocks):
            v.prefetch(w + AHEAD)
            acc = v.rank1(acc, load(w), x + i * 4, 0)
            w += n_bytes
        return acc

    @kernel_inline
    def unpack(w, scratch, count):
        for _ in range(count):
            v.prefetch(w + AHEAD)
            v.st_f32x16(scratch, load(w))
            w += n_bytes
            scratch += 64

    def gemm(n):
        ld, st = v.load_group(n), v.store_group(n)

        @kernel_inline
        def run(scratch, count, x, stride, acc_at):
            acc = ld(acc_at, 64)
            for i in range(count):
                acc = v.rank1(acc, v.ld_f32x16(scratch + i * 64), x + i * 4, stride)
            st(acc_at, 64, acc)

        return run

    return Tile(n_bytes, 4, gemv, unit, unit * 64, unpack, gemm)
