"""Mixtures of experts: the router's choice, and the weighted sum of the chosen experts' outputs.

What an expert reads and writes has a row for each *pair* of a token's row and its slot, row * N_USED + slot. PLACES
says which: the pair's own number in steps of few rows; in others pairs are sorted by expert, so that an expert's
weights are read once for all of them.

Source  llama.cpp b11434 build_moe_ffn: softmax over all experts, the best by probability (the lower index first among
equals), shares divided by their sum, which is taken as at least 2^-14 (the smallest normal f16).
"""

from chenxing.kernels import layout as L
from chenxing.kernels import simd as v
from chenxing.kernels.maths import exp

SCORES, SCORES_ROW, N_EXPERT, N_USED, CHOSEN, SHARES, PLACES, SCRATCH, SCRATCH_EACH = range(0, 72, 8)


def route():
    """(args, row, tid): CHOSEN i64, SHARES f32 and PLACES i64, each [n_rows, N_USED], from SCORES f32 rows."""

    def run(args, row, tid):
        n = v.ld_i64(args + N_EXPERT)
        n_used = v.ld_i64(args + N_USED)
        x = v.ld_i64(args + SCORES) + row * v.ld_i64(args + SCORES_ROW)
        p = v.ld_i64(args + SCRATCH) + tid * v.ld_i64(args + SCRATCH_EACH)
        top = v.ld_f32(x)
        for i in range(1, n):
            top = max(top, v.ld_f32(x + i * 4))
        for i in range(0, n * 4, 64):
            v.st_f32x16(p + i, exp(v.sub(v.ld_f32x16(x + i), v.splat_f32(top))))
        total = v.f32(0.0)
        for i in range(n):
            total = v.f32(total + v.ld_f32(p + i * 4))
        chosen = v.ld_i64(args + CHOSEN) + row * n_used * 8
        shares = v.ld_i64(args + SHARES) + row * n_used * 4
        places = v.ld_i64(args + PLACES) + row * n_used * 8
        sum_used = v.f32(0.0)
        for k in range(n_used):
            best = 0
            for i in range(1, n):
                if v.ld_f32(p + i * 4) > v.ld_f32(p + best * 4):
                    best = i
            share = v.f32(v.ld_f32(p + best * 4) / total)
            v.st_i64(chosen + k * 8, best)
            v.st_i64(places + k * 8, row * n_used + k)
            v.st_f32(shares + k * 4, share)
            sum_used = v.f32(sum_used + share)
            v.st_f32(p + best * 4, v.f32(-1.0))
        sum_used = max(sum_used, v.f32(6.103515625e-5))
        for k in range(n_used):
            v.st_f32(shares + k * 4, v.f32(v.ld_f32(shares + k * 4) / sum_used))

    return run


G_CHOSEN, G_PLACES, STARTS, G_N_EXPERT, G_N_USED, STEP = range(0, 48, 8)


def group():
    """(args, chunk, tid): give the step's pairs PLACES sorted by expert, in the order of pairs within one.

    STARTS i64[n_expert + 2]: expert e's places are STARTS[e] up to STARTS[e + 1].
    """

    def run(args, chunk, tid):
        chosen = v.ld_i64(args + G_CHOSEN)
        places = v.ld_i64(args + G_PLACES)
        starts = v.ld_i64(args + STARTS)
        n_expert = v.ld_i64(args + G_N_EXPERT)
        n_pairs = v.ld_i64(v.ld_i64(args + STEP) + 8 * L.N_ROWS) * v.ld_i64(args + G_N_USED)
        for e in range(n_expert + 2):
            v.st_i64(starts + e * 8, 0)
        for pair in range(n_pairs):  # counts, two words late: while places are given out, [e + 1] is e's next one
            count = starts + v.ld_i64(chosen + pair * 8) * 8 + 16
            v.st_i64(count, v.ld_i64(count) + 1)
        for e in range(1, n_expert + 2):
            v.st_i64(starts + e * 8, v.ld_i64(starts + e * 8) + v.ld_i64(starts + e * 8 - 8))
        for pair in range(n_pairs):
            next_ = starts + v.ld_i64(chosen + pair * 8) * 8 + 8
            place = v.ld_i64(next_)
            v.st_i64(places + pair * 8, place)
            v.st_i64(next_, place + 1)

    return run


SRC, SRC_ROW, DST, S_PLACES, S_N_USED = range(0, 40, 8)


def spread():
    """(args, row, tid): copy a SRC row, SRC_ROW bytes and a multiple of 16, to the DST rows of its N_USED pairs."""

    def run(args, row, tid):
        n_bytes = v.ld_i64(args + SRC_ROW)
        n_used = v.ld_i64(args + S_N_USED)
        src = v.ld_i64(args + SRC) + row * n_bytes
        places = v.ld_i64(args + S_PLACES) + row * n_used * 8
        for k in range(n_used):
            dst = v.ld_i64(args + DST) + v.ld_i64(places + k * 8) * n_bytes
            for at in range(0, n_bytes, 16):
                v.st_i8x16(dst + at, v.ld_u8x16(src + at))

    return run


OUT, OUT_ROW, N, C_N_USED, C_SHARES, C_PLACES, X, X_ROW = range(0, 64, 8)


def combine():
    """(args, row, tid): X row += sum over k ascending of share k * OUT row of the pair (row, k), by fma."""

    def run(args, row, tid):
        n_used = v.ld_i64(args + C_N_USED)
        stride = v.ld_i64(args + OUT_ROW)
        out = v.ld_i64(args + OUT)
        shares = v.ld_i64(args + C_SHARES) + row * n_used * 4
        places = v.ld_i64(args + C_PLACES) + row * n_used * 8
        x = v.ld_i64(args + X) + row * v.ld_i64(args + X_ROW)
        for i in range(0, v.ld_i64(args + N) * 4, 64):
            acc = v.zero_f32()
            for k in range(n_used):
                y = out + v.ld_i64(places + k * 8) * stride
                acc = v.fma(acc, v.ld_f32x16(y + i), v.bcast_f32(shares + k * 4))
            v.st_f32x16(x + i, v.add(v.ld_f32x16(x + i), acc))

    return run
