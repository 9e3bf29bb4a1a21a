"""RoPE with the KV write, and paged flash attention: one sequence of operations per query row (law L2).

A page of one layer is K then V, f16:
    K  [kv head][head_dim][32 tokens]                one cache line per (head, d); lanes are tokens
    V  [kv head][head_dim / 32][32 tokens][32 dims]  one cache line per (head, strip, token); lanes are dims
so neither product needs a horizontal sum. head_dim is padded to a multiple of 32 with zeros.
A *segment* is SEGMENT keys at a fixed absolute position. For one row and one segment
    s_t   = sum over d ascending, by fma; q is scaled by scale * log2 e before
    m     = max, p_t = exp2(s_t - m), l = 16 lane sums over t ascending, then the fixed tree
    acc_d = sum over t ascending, by fma
and segments merge in ascending order: the only rescaling of the online softmax. Masked keys add an exact zero, so
pages must be finite from the start. Tiles of rows share loads and change no row's own operations.
Source  Dao 2022 (FlashAttention), Ainslie 2023 (GQA), Kwon 2023 (paged KV).
"""

from chenxing.kernels import layout as L
from chenxing.kernels import simd as v
from chenxing.kernels.attention_layout import MAX_TILE, TASK_WORDS
from chenxing.kernels.maths import exp2, sincos, softcap
from chenxing.kernels.rows import rms_scale
from chenxing.kernels.simd import Target, const, f32x16, kernel_inline, op

PAGE, SEGMENT = L.PAGE, L.SEGMENT
NEG = -3.0e38

# ---- cos and sin of this step's positions ----

FREQS, POSITIONS, TABLE, N_FREQS, MSCALE = 0, 8, 16, 24, 32


def rope_table():
    """(args, row, tid): TABLE f32[n_rows, 2, N_FREQS] = cos, sin of POSITIONS[row] * FREQS f64, times MSCALE f32."""

    def run(args, row, tid):
        n = v.ld_i64(args + N_FREQS)
        pos = v.f64(v.ld_i64(v.ld_i64(args + POSITIONS) + row * 8))
        table = v.ld_i64(args + TABLE) + row * n * 8
        mscale = v.f64(v.ld_f32(args + MSCALE))
        for i in range(n):
            s, c = sincos(pos * v.ld_f64(v.ld_i64(args + FREQS) + i * 8))
            v.st_f32(table + i * 4, v.f32(c * mscale))
            v.st_f32(table + (n + i) * 4, v.f32(s * mscale))

    return run


# ---- RoPE and KV write ----

(Q, K, V, ROW, N_HEAD, N_HEAD_KV, HEAD_DIM, N_ROT, ROPE, Q_NORM, K_NORM, EPS, PAGES, SLOTS, LAYER, Q_OUT, Q_SCALE,
 SCRATCH, SCRATCH_EACH) = range(0, 152, 8)  # fmt: skip


@kernel_inline
def _rotated_head(src, hd, padded, n_rot, table, norm, eps, dst):
    """One head: optional RMS norm, rotation of the pairs (i, i + n_rot / 2), zeros up to the padded size."""
    r = v.f32(1.0)
    if norm != 0:
        r = rms_scale(src, hd, eps)
    for d in range(hd):
        x = v.ld_f32(src + d * 4)
        if norm != 0:
            x = v.f32(v.f32(x * r) * v.ld_f32(norm + d * 4))
        v.st_f32(dst + d * 4, x)
    half = n_rot // 2
    if table != 0:
        for i in range(half):
            c = v.ld_f32(table + i * 4)
            s = v.ld_f32(table + (half + i) * 4)
            x = v.ld_f32(dst + i * 4)
            y = v.ld_f32(dst + (half + i) * 4)
            v.st_f32(dst + i * 4, v.f32(v.f32(x * c) - v.f32(y * s)))
            v.st_f32(dst + (half + i) * 4, v.f32(v.f32(x * s) + v.f32(y * c)))
    for d in range(hd, padded):
        v.st_f32(dst + d * 4, v.f32(0.0))


def rope_kv():
    """(args, row, tid): rotate q and k of a row, write k and v into the row's page, q scaled and padded to Q_OUT.

    Q, K, V   f32 rows, ROW bytes apart; Q_OUT f32[n_rows, N_HEAD, padded head_dim], times Q_SCALE
    ROPE      the step's table, or 0 for a layer without positions
    Q_NORM, K_NORM   f32[head_dim] weights of a norm per head, or 0
    PAGES i64[n_rows] address of the row's page, SLOTS i64[n_rows] its place in it, LAYER offset of this layer
    """

    def run(args, row, tid):
        hd = v.ld_i64(args + HEAD_DIM)
        padded = (hd + 31) // 32 * 32
        n_rot = v.ld_i64(args + N_ROT)
        n_head = v.ld_i64(args + N_HEAD)
        n_kv = v.ld_i64(args + N_HEAD_KV)
        eps = v.ld_f32(args + EPS)
        table = v.ld_i64(args + ROPE)
        if table != 0:
            table += row * n_rot * 4
        offset = row * v.ld_i64(args + ROW)
        scale = v.splat_f32(v.ld_f32(args + Q_SCALE))
        for h in range(n_head):
            dst = v.ld_i64(args + Q_OUT) + (row * n_head + h) * padded * 4
            src = v.ld_i64(args + Q) + offset + h * hd * 4
            _rotated_head(src, hd, padded, n_rot, table, v.ld_i64(args + Q_NORM), eps, dst)
            for i in range(0, padded * 4, 64):
                v.st_f32x16(dst + i, v.mul(v.ld_f32x16(dst + i), scale))
        page = v.ld_i64(v.ld_i64(args + PAGES) + row * 8) + v.ld_i64(args + LAYER)
        slot = v.ld_i64(v.ld_i64(args + SLOTS) + row * 8)
        tmp = v.ld_i64(args + SCRATCH) + tid * v.ld_i64(args + SCRATCH_EACH)
        for h in range(n_kv):
            src = v.ld_i64(args + K) + offset + h * hd * 4
            _rotated_head(src, hd, padded, n_rot, table, v.ld_i64(args + K_NORM), eps, tmp)
            kp = page + h * padded * PAGE * 2 + slot * 2
            for d in range(padded):
                v.st_f16(kp + d * PAGE * 2, v.ld_f32(tmp + d * 4))
            vp = page + (n_kv + h) * padded * PAGE * 2 + slot * 64
            src = v.ld_i64(args + V) + offset + h * hd * 4
            for d in range(hd):
                v.st_f16(vp + d // 32 * (PAGE * 64) + d % 32 * 2, v.ld_f32(src + d * 4))

    return run


# ---- attention ----

A_Q, A_N_HEAD, A_N_KV, A_TASKS, A_LAYER, A_WINDOW, A_CAP, A_OUT, A_OUT_ROW, A_SCRATCH, \
    A_SCRATCH_EACH, A_POSITIONS, A_HEAD_DIM = range(0, 104, 8)  # fmt: skip

_masked = v.constant(NEG)
_pair = op(
    f32x16,
    (v.f32, v.f32),
    lambda b, x, y: b.insert_element(b.insert_element(const(f32x16.ll, 0.0), x, v.I32(0)), y, v.I32(1)),
)
_lane0 = op(v.f32, (f32x16,), lambda b, x: b.extract_element(x, v.I32(0)))
_lane1 = op(v.f32, (f32x16,), lambda b, x: b.extract_element(x, v.I32(1)))


def rows_in_tile() -> int:
    """Query rows that share a load of K or V: as many as the registers hold, 2 vectors each."""
    return {512: MAX_TILE, 256: 3, 128: 1}[Target.isa.bits]


def attend(padded):
    """(args, chunk, tid): chunk = (task, kv head). padded = head_dim rounded up to 32.

    A_Q  f32[n_rows, n_head, padded], scaled by scale * log2 e; A_TASKS i64[n_tasks, TASK_WORDS]
    A_LAYER  offset of this layer in every page
    A_WINDOW  keys a row sees, itself included; A_CAP f32 soft-cap of scores (0: none)
    A_OUT  f32 rows of n_head * head_dim, A_OUT_ROW bytes apart
    """
    R = rows_in_tile()
    ROW_BYTES = padded * 4  # of q
    STATE = (padded + 16) * 4  # m, l, 14 unused, acc
    SROW = (SEGMENT + 16) * 4  # one line more than the scores, against aliasing in L1
    HEAD = padded * PAGE * 2
    STRIPS = padded // 32
    zeros = v.zeros_f32(R)
    store_rows = v.store_group(R)

    @kernel_inline
    def page_of(offset, table, p):
        return v.ld_i64(table + p * 8) + offset

    @kernel_inline
    def scores(q, k, ahead, s):
        lo = zeros()
        hi = zeros()
        for d in range(padded):
            v.prefetch(ahead + d * 64)
            lo = v.rank1(lo, v.ld_f16x16(k + d * 64), q + d * 4, ROW_BYTES)
            hi = v.rank1(hi, v.ld_f16x16(k + d * 64 + 32), q + d * 4, ROW_BYTES)
        store_rows(s, SROW, lo)
        store_rows(s + 64, SROW, hi)

    @kernel_inline
    def weigh(s, lo, hi, first, last, cap):
        """Scores -> weights in place over vectors first..last; keys outside [lo, hi) weigh 0. Returns (m, l)."""
        m = _masked()
        lane = v.iota()
        for i in range(first, last):
            x = v.ld_f32x16(s + i * 64)
            if cap > v.f32(0.0):
                c = v.f32(cap * v.f32(1.4426950408889634))
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

    @kernel_inline
    def mix(s, values, table, first, last, part):
        """part's acc = weights x V: one strip of 32 dims x R rows stays in registers over all pages."""
        for c in range(STRIPS):
            lo = zeros()
            hi = zeros()
            for p in range(first, last):
                val = page_of(values, table, p) + c * (PAGE * 64)
                ahead = page_of(values, table, min(p + 2, last - 1)) + c * (PAGE * 64)
                w = s + p * (PAGE * 4)
                for t in range(PAGE):
                    v.prefetch(ahead + t * 64)
                    lo = v.rank1(lo, v.ld_f16x16(val + t * 64), w + t * 4, SROW)
                    hi = v.rank1(hi, v.ld_f16x16(val + t * 64 + 32), w + t * 4, SROW)
            store_rows(part + 64 + c * 128, STATE, lo)
            store_rows(part + 128 + c * 128, STATE, hi)

    @kernel_inline
    def merge(state, part):
        """state = state (+) part, the online softmax of one row."""
        l2 = v.ld_f32(part + 4)
        if l2 == v.f32(0.0):
            return
        l1 = v.ld_f32(state + 4)
        m2 = v.ld_f32(part)
        m1 = v.ld_f32(state)
        if l1 == v.f32(0.0):
            m1 = m2
        m = max(m1, m2)
        e = exp2(_pair(v.f32(m1 - m), v.f32(m2 - m)))
        a = _lane0(e)
        b = _lane1(e)
        v.st_f32(state, m)
        v.st_f32(state + 4, v.f32(v.f32(l1 * a) + v.f32(l2 * b)))
        av = v.splat_f32(a)
        bv = v.splat_f32(b)
        for i in range(64, STATE, 64):
            v.st_f32x16(state + i, v.fma(v.mul(v.ld_f32x16(state + i), av), v.ld_f32x16(part + i), bv))

    @kernel_inline
    def tile(q, pos, n, keys, values, table, index, window, cap, state, part, s):
        """Rows 0..n of a tile (n <= R, the rest repeat the last one) against segment `index`."""
        base = index * SEGMENT
        least = v.ld_i64(pos)
        most = v.ld_i64(pos + (n - 1) * 8)
        if most < base or least - window + 1 >= base + SEGMENT:
            return
        first = max(0, least - window + 1 - base) // PAGE
        last = (min(SEGMENT, most + 1 - base) + PAGE - 1) // PAGE
        tab = table + index * (SEGMENT // PAGE * 8)
        for p in range(first, last):
            ahead = page_of(values, tab, first)
            if p + 1 < last:
                ahead = page_of(keys, tab, p + 1)
            scores(q, page_of(keys, tab, p), ahead, s + p * (PAGE * 4))
        for r in range(R):
            row = min(r, n - 1)
            at = v.ld_i64(pos + row * 8) - base
            lo = max(0, at - window + 1)
            hi = min(SEGMENT, at + 1)
            if lo < hi:
                m, total = weigh(s + r * SROW, lo, hi, first * 2, last * 2, cap)
                v.st_f32(part + r * STATE, m)
                v.st_f32(part + r * STATE + 4, total)
            else:
                v.st_f32(part + r * STATE + 4, v.f32(0.0))
                for i in range(first * 2, last * 2):
                    v.st_f32x16(s + r * SROW + i * 64, v.zero_f32())
        mix(s, values, tab, first, last, part)
        for r in range(n):
            merge(state + r * STATE, part + r * STATE)

    @kernel_inline
    def finish(state, hd, out):
        """out[0..hd) = acc / l; adding 0 turns -0 into +0."""
        inv = v.splat_f32(v.f32(v.f32(1.0) / v.ld_f32(state + 4)))
        full = hd // 16 * 16
        for d in range(0, full, 16):
            v.st_f32x16(out + d * 4, v.fma(v.zero_f32(), v.ld_f32x16(state + 64 + d * 4), inv))
        if full < hd:
            last = v.fma(v.zero_f32(), v.ld_f32x16(state + 64 + full * 4), inv)
            v.st_f32x16(state + 64, last)
            for d in range(full, hd):
                v.st_f32(out + d * 4, v.ld_f32(state + 64 + (d - full) * 4))

    def run(args, chunk, tid):
        n_head = v.ld_i64(args + A_N_HEAD)
        n_kv = v.ld_i64(args + A_N_KV)
        hd = v.ld_i64(args + A_HEAD_DIM)
        G = n_head // n_kv
        kv = chunk % n_kv
        task = v.ld_i64(args + A_TASKS) + chunk // n_kv * (8 * TASK_WORDS)
        row0 = v.ld_i64(task)
        n = v.ld_i64(task + 8) * G
        table = v.ld_i64(task + 16)
        keys = v.ld_i64(args + A_LAYER) + kv * HEAD  # in every page
        values = keys + n_kv * HEAD
        window = v.ld_i64(args + A_WINDOW)
        cap = v.ld_f32(args + A_CAP)
        state = v.ld_i64(args + A_SCRATCH) + tid * v.ld_i64(args + A_SCRATCH_EACH)
        part = state + n * STATE
        s = part + R * STATE
        pos = s + R * SROW
        q = pos + n * 8
        pos0 = v.ld_i64(v.ld_i64(args + A_POSITIONS) + row0 * 8)
        for i in range(n):
            v.st_i64(pos + i * 8, pos0 + i // G)
            for c in range(0, STATE, 64):
                v.st_f32x16(state + i * STATE + c, v.zero_f32())
        last = pos0 + (n - 1) // G
        for index in range(max(0, pos0 - window + 1) // SEGMENT, last // SEGMENT + 1):
            for i in range(0, n, R):
                m = min(R, n - i)
                for r in range(R):
                    e = i + min(r, m - 1)
                    src = v.ld_i64(args + A_Q) + (((row0 + e // G) * n_head) + kv * G + e % G) * ROW_BYTES
                    for c in range(0, ROW_BYTES, 64):
                        v.st_f32x16(q + r * ROW_BYTES + c, v.ld_f32x16(src + c))
                tile(q, pos + i * 8, m, keys, values, table, index, window, cap, state + i * STATE, part, s)
        for i in range(n):
            dst = v.ld_i64(args + A_OUT) + (row0 + i // G) * v.ld_i64(args + A_OUT_ROW)
            finish(state + i * STATE, hd, dst + (kv * G + i % G) * hd * 4)

    return run
