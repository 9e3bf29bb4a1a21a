"""The online softmax of one row and head: its state, and how a segment's partial result joins it.

A state is f32: maximum m, sum l, 14 unused, then the padded sums of values (attention_layout.state_bytes). l = 0 is an
empty one. Merging is the only rescaling: with m = max(m1, m2), a = 2^(m1 - m), b = 2^(m2 - m)
    l = l1 a + l2 b          acc = fma(acc2, b, acc1 a)
always in ascending order of segments, so that the bits do not depend on who computed which.
"""

from chenxing.kernels import simd as v
from chenxing.kernels.maths import exp2
from chenxing.kernels.simd import const, f32x16, kernel_inline, op

LOG2E = 1.4426950408889634
_pair = op(
    f32x16,
    (v.f32, v.f32),
    lambda b, x, y: b.insert_element(b.insert_element(const(f32x16.ll, 0.0), x, v.I32(0)), y, v.I32(1)),
)
_lane0 = op(v.f32, (f32x16,), lambda b, x: b.extract_element(x, v.I32(0)))
_lane1 = op(v.f32, (f32x16,), lambda b, x: b.extract_element(x, v.I32(1)))


@kernel_inline
def clear(state, size):
    for c in range(0, size, 64):
        v.st_f32x16(state + c, v.zero_f32())


@kernel_inline
def _factors(m1, m2):
    m = max(m1, m2)
    e = exp2(_pair(v.f32(m1 - m), v.f32(m2 - m)))
    return m, _lane0(e), _lane1(e)


@kernel_inline
def merge(state, part, size):
    """state = state (+) part, both of `size` bytes."""
    l2 = v.ld_f32(part + 4)
    if l2 == v.f32(0.0):
        return
    l1 = v.ld_f32(state + 4)
    m2 = v.ld_f32(part)
    m1 = v.ld_f32(state)
    if l1 == v.f32(0.0):
        m1 = m2
    m, a, b = _factors(m1, m2)
    v.st_f32(state, m)
    v.st_f32(state + 4, v.f32(v.f32(l1 * a) + v.f32(l2 * b)))
    av = v.splat_f32(a)
    bv = v.splat_f32(b)
    for i in range(64, size, 64):
        v.st_f32x16(state + i, v.fma(v.mul(v.ld_f32x16(state + i), av), v.ld_f32x16(part + i), bv))


@kernel_inline
def finish(state, sink, hd, out):
    """out f32[hd] = acc / l; adding 0 turns -0 into +0. The state is used up.

    sink: address of a logit that takes part in the sum alone, as a key without a value would, after all others; or 0
    """
    total = v.ld_f32(state + 4)
    scale = v.f32(1.0)
    if sink != 0:
        _, a, b = _factors(v.ld_f32(state), v.f32(v.ld_f32(sink) * v.f32(LOG2E)))
        total = v.f32(v.f32(total * a) + b)
        scale = a
    inv = v.splat_f32(v.f32(scale / total))
    full = hd // 16 * 16
    for d in range(0, full, 16):
        v.st_f32x16(out + d * 4, v.fma(v.zero_f32(), v.ld_f32x16(state + 64 + d * 4), inv))
    if full < hd:
        last = v.fma(v.zero_f32(), v.ld_f32x16(state + 64 + full * 4), inv)
        v.st_f32x16(state + 64, last)
        for d in range(full, hd):
            v.st_f32(out + d * 4, v.ld_f32(state + 64 + (d - full) * 4))
