"""Plain reading of memory: what the machine gives when nothing else is to be done, for `chenxing bench`."""

from chenxing.kernels.simd import add_i, i32x16, i64, kernel_inline, ld_i64, op, prefetch
from chenxing.kernels.vectors import load, store, void

# argument slots, in bytes; DST has room for one vector a chunk
SRC, CHUNK_BYTES, DST = 0, 8, 16

_ld = op(i32x16, (i64,), lambda b, p: load(b, p, i32x16.ll))
_st = op(void, (i64, i32x16), store)


@kernel_inline
def _sum(src, n_bytes):
    """The sum of n_bytes of i32x16, a multiple of 256: four lines a round, each fetched 8 KiB ahead."""
    a, b, c, d = _ld(src), _ld(src + 64), _ld(src + 128), _ld(src + 192)
    for p in range(src + 256, src + n_bytes, 256):
        for line in range(0, 256, 64):
            prefetch(p + 8192 + line)
        a = add_i(a, _ld(p))
        b = add_i(b, _ld(p + 64))
        c = add_i(c, _ld(p + 128))
        d = add_i(d, _ld(p + 192))
    return add_i(add_i(a, b), add_i(c, d))


def read():
    """DST[chunk] = sum of the chunk's vectors."""

    def run(args, chunk, tid):
        n_bytes = ld_i64(args + CHUNK_BYTES)
        _st(ld_i64(args + DST) + chunk * 64, _sum(ld_i64(args + SRC) + chunk * n_bytes, n_bytes))

    return run
