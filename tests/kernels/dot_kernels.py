"""Kernels that exist only to reach the operations of kernels/simd_dot.py; referred to as "dot_kernels:name(...)".

Groups have two rows of activations. Vectors are read and written in full: 64 bytes of weights, 16 i32 of sums.
"""

from numba.extending import intrinsic

from chenxing.kernels import simd as v
from chenxing.kernels import simd_dot as dot

put_i32 = v.op(v.void, (v.i64, v.i32x16), v.store)
put_u8 = v.op(v.void, (v.i64, v.u8x64), v.store)
put_two, put_four = v.store_group(2), v.store_group(4)


def load_i32(n):
    """An operation (addr): n vectors of i32, one after another."""

    @intrinsic
    def ld(typingctx, addr):
        ty = v.group(v.i32x16, n)

        def cg(c, b, s, a):
            return c.make_tuple(b, ty, [v.load(b, b.add(a[0], v.I64(64 * t)), v.i32x16.ll) for t in range(n)])

        return ty(v.i64), cg

    return ld


def unsigned(largest):
    """(args): weights u8[8, 64], activations i8[2, 32], their stride, out i32[2, 16]: one dot product over k 0..31."""
    zeros, ld, dots = v.zeros_i32(2), dot.vectors(8), dot.dot_unsigned(8, largest)

    def run(args, chunk, tid):
        ws = ld(v.ld_i64(args))
        put_two(v.ld_i64(args + 24), 64, dots(zeros(), ws, v.ld_i64(args + 8), v.ld_i64(args + 16)))

    return run


def signed():
    """The same for i8 weights; the activations' sums, i32, are at a 5th address, 8 bytes a row."""
    zeros, ld, dots = v.zeros_i32(2), dot.vectors(8), dot.dot_signed(8)

    def run(args, chunk, tid):
        ws = ld(v.ld_i64(args))
        total = dot.signed_start(zeros(), v.ld_i64(args + 32), 8)
        put_two(v.ld_i64(args + 24), 64, dots(total, ws, v.ld_i64(args + 8), v.ld_i64(args + 16)))

    return run


def scaled(first, largest):
    """(args): weights, activations, stride and out as above; scales i32[16] of i16 pairs, start i32[2, 16] and
    corrections i32[2, 16]: start + scale * the sums over vectors first .. first + 3, less the signed offset."""
    ld, dots, offset = dot.vectors(8), dot.dot_scaled(4, first, largest), 0 if largest else dot.signed_offset()
    two = load_i32(2)

    def run(args, chunk, tid):
        scale = v.ld_i32x16(v.ld_i64(args + 32))
        total = dots(two(v.ld_i64(args + 40)), ld(v.ld_i64(args)), scale, v.ld_i64(args + 8), v.ld_i64(args + 16))
        total = v.mul_add(total, two(v.ld_i64(args + 48)), v.splat_i32(-offset))
        put_two(v.ld_i64(args + 24), 64, total)

    return run


def offset(value):
    """(args): sums i32 at 8 bytes a row, out i32[2, 16]."""
    zeros, start = v.zeros_i32(2), dot.offset_start(value)

    def run(args, chunk, tid):
        put_two(v.ld_i64(args + 8), 64, start(zeros(), v.ld_i64(args), 8))

    return run


def pairs():
    """(args): pairs i8[16, 2], x i16[2, 4], nibbles u8[16, 2], out i32[6, 16]: dot_pairs (two rows), both_even,
    both_odd, low and high nibbles as pairs."""
    zeros, pairs_of = v.zeros_i32(2), dot.pairs_at(0)
    low, high = dot.bit_pairs_at(0, 0, 15), dot.bit_pairs_at(0, 4, 15)

    def run(args, chunk, tid):
        both = pairs_of(v.ld_i64(args), 0)
        x = v.ld_i64(args + 8)
        out = v.ld_i64(args + 24)
        put_two(out, 64, dot.dot_pairs(zeros(), both, x, 8))
        put_i32(out + 128, dot.both_even(both))
        put_i32(out + 192, dot.both_odd(both))
        put_i32(out + 256, low(v.ld_i64(args + 16), 0))
        put_i32(out + 320, high(v.ld_i64(args + 16), 0))

    return run


def byte_fields():
    """(args): u8[4, 64], out u8[19, 64]: see test_simd_dot.py."""
    ld, single, top = dot.vectors(4), dot.bits_at(3, 7), dot.bits_at(4, 15)
    crumbs, nibbles = dot.fields(2, 4), dot.fields(4, 2)
    bits = dot.put_fields(1, 4, 2)
    table = dot.lookup((-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113))

    def run(args, chunk, tid):
        src, out = v.ld_i64(args), v.ld_i64(args + 8)
        q = ld(src)
        first = v.ld_u8x64(src)
        put_u8(out, single(first))
        put_four(out + 64, 64, top(q))
        put_four(out + 320, 64, crumbs(first))
        put_two(out + 576, 64, nibbles(first))
        put_four(out + 704, 64, bits(crumbs(first), v.ld_u8x64(src + 64)))
        put_four(out + 960, 64, table(top(q)))

    return run
