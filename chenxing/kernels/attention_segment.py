"""A tile of query rows against one segment of keys: maximum, sum and weighted values of every row.

For one row, whatever tile it is in:
    s_t   = sum over d ascending, by fma; q is scaled by scale * log2 e before
    m     = max, p_t = exp2(s_t - m), l = 16 lane sums over t ascending, then the fixed tree
    acc_d = sum over t ascending, by fma
Masked keys add an exact zero, so pages must be finite from the start.
"""

from chenxing.kernels import kv_formats as kv
from chenxing.kernels import layout as L
from chenxing.kernels import simd as v
from chenxing.kernels.attention_layout import STRIP, state_bytes
from chenxing.kernels.maths import exp2, softcap
from chenxing.kernels.online_softmax import LOG2E
from chenxing.kernels.simd import kernel_inline

PAGE, SEGMENT = L.PAGE, L.SEGMENT
AHEAD = 2  # pages
SCORE_ROW = (SEGMENT + 16) * 4  # one line more than the scores, against aliasing in L1

_masked = v.constant(-3.0e38)


@kernel_inline
def page_of(offset, table, p):
    return v.ld_i64(table + p * 8) + offset


@kernel_inline
def _weigh(s, lo, hi, first, last, cap):
    """Scores -> weights in place over vectors first..last; keys outside [lo, hi) weigh 0. Returns (m, l)."""
    m = _masked()
    lane = v.iota()
    for i in range(first, last):
        x = v.ld_f32x16(s + i * 64)
        if cap > v.f32(0.0):
            c = v.f32(cap * v.f32(LOG2E))
            x = softcap(x, v.splat_f32(c), v.splat_f32(v.f32(v.f32(1.0) / c)))
        if lo > i * 16 or hi < i * 16 + 16:
            x = v.select_lt(lane, v.splat_i32(lo - i * 16), _masked(), x)
            x = v.select_lt(lane, v.splat_i32(hi - i * 16), x, _masked())
        v.st_f32x16(s + i * 64, x)
        m = v.vmax(m, x)
    top = v.hmax(m)
    m = v.splat_f32(top)
    total = v.zero_f32()
    for i in range(first, last):
        p = exp2(v.sub(v.ld_f32x16(s + i * 64), m))
        v.st_f32x16(s + i * 64, p)
        total = v.add(total, p)
    return top, v.hsum(total)


def segment_tile(padded, form, R, P, TOGETHER):
    """The kernel function of a tile of R rows, P vectors of 16 lanes at a time, V of TOGETHER pages.

    (q, pos, n, keys, values, table, after, after_table, n_after, base, window, cap, part, s)
    -> whether any row sees a key
    q f32[R, padded], rows n..R being copies; pos i64[n]; keys, values: offsets in a page; table: i64 page addresses of
    the segment, which begins at token `base`; after...: offset, page addresses and number of pages of what will
    probably be read next; part: R states, written; s: R rows of scores, scratch

    Pages are read in the order K, V; while one is multiplied, the one AHEAD of it is fetched, a little with every line:
    all at once would fill the queue of misses, and leave memory idle afterwards.
    """
    ROW = padded * 4
    STATE = state_bytes(padded)
    STRIPS = padded // STRIP
    HEADER, LINE, STRIP_BYTES = form.type.header_bytes, form.type.line_bytes, form.type.strip_bytes
    VECTOR = 16 * form.type.element_bytes
    PASSES = 2 // P  # over every line
    SHARE = STRIP_BYTES // PASSES  # of a page to come: what one pass over a strip fetches
    STRIDE = LINE // PASSES
    zeros = v.zeros_f32(R * P)
    outer = kv.accumulate(form, R, P)
    load, store = kv.load_panel(R, P), kv.store_panel(R, P)
    lane_scales = kv.lane_scales(form, P)
    token_scale = kv.token_scale(form, P)

    @kernel_inline
    def clear_sums(state):
        for c in range(64, STATE, 64):
            v.st_f32x16(state + c, v.zero_f32())

    @kernel_inline
    def scores(q, k, ahead, s):
        """s = q K of one page, which is read once for each P vectors of tokens."""
        for i in range(0, 2, P):
            acc = zeros()
            for c in range(STRIPS):
                strip = k + c * STRIP_BYTES
                scales = lane_scales(strip, i * 16)
                soon = ahead + (i // P * STRIPS + c) * SHARE
                for d in range(STRIP):
                    v.prefetch(soon + d * STRIDE)
                    line = strip + HEADER + d * LINE + i * VECTOR
                    acc = outer(acc, line, scales, q + (c * STRIP + d) * 4, ROW)
            store(s + i * 64, SCORE_ROW, acc)

    @kernel_inline
    def mix(s, values, table, begin, end, last, after, after_table, n_after, part):
        """part's sums += weights x V of pages begin..end."""
        for c in range(STRIPS):
            for i in range(0, 2, P):
                at = part + 64 + c * 128 + i * 64
                acc = load(at, STATE)
                for p in range(begin, end):
                    strip = page_of(values, table, p) + c * STRIP_BYTES
                    soon = page_of(values, table, min(p + AHEAD, last - 1))
                    if p + AHEAD >= last and p + AHEAD - last < n_after:
                        soon = page_of(after, after_table, p + AHEAD - last)
                    soon += (c * PASSES + i // P) * SHARE
                    w = s + p * (PAGE * 4)
                    for t in range(PAGE):
                        v.prefetch(soon + t * STRIDE)
                        line = strip + HEADER + t * LINE + i * VECTOR
                        acc = outer(acc, line, token_scale(strip, t), w + t * 4, SCORE_ROW)
                store(at, STATE, acc)

    @kernel_inline
    def tile(q, pos, n, keys, values, table, after, after_table, n_after, base, window, cap, part, s):
        least = v.ld_i64(pos)
        most = v.ld_i64(pos + (n - 1) * 8)
        if most < base or least - window + 1 >= base + SEGMENT:
            return 0
        first = max(0, least - window + 1 - base) // PAGE
        last = (min(SEGMENT, most + 1 - base) + PAGE - 1) // PAGE
        for p in range(first, last):
            soon = page_of(values, table, max(first, min(first + p + AHEAD - last, last - 1)))
            if p + AHEAD < last:
                soon = page_of(keys, table, p + AHEAD)
            scores(q, page_of(keys, table, p), soon, s + p * (PAGE * 4))
        for r in range(n):
            at = v.ld_i64(pos + r * 8) - base
            lo = max(0, at - window + 1)
            hi = min(SEGMENT, at + 1)
            if lo < hi:
                m, total = _weigh(s + r * SCORE_ROW, lo, hi, first * 2, last * 2, cap)
                v.st_f32(part + r * STATE, m)
                v.st_f32(part + r * STATE + 4, total)
            else:
                v.st_f32(part + r * STATE + 4, v.f32(0.0))
                for i in range(first * 2, last * 2):
                    v.st_f32x16(s + r * SCORE_ROW + i * 64, v.zero_f32())
        for r in range(R):
            clear_sums(part + r * STATE)
        for p in range(first, last, TOGETHER):
            mix(s, values, table, p, min(p + TOGETHER, last), last, after, after_table, n_after, part)
        return 1

    return tile
