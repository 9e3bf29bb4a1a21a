"""Mixtures of experts: the router's choice, and the weighted sum of the chosen experts' outputs.

Source  llama.cpp b11434 build_moe_ffn: softmax over all experts, the best by probability (the lower index first among
equals), shares divided by their sum, which is taken as at least 2^-14 (the smallest normal f16).
"""

from chenxing.kernels import simd as v
from chenxing.kernels.maths import exp

SCORES, SCORES_ROW, N_EXPERT, N_USED, CHOSEN, SHARES, SCRATCH, SCRATCH_EACH = range(0, 64, 8)


def route():
    """(args, row, tid): CHOSEN i64[n_rows, N_USED], SHARES f32[n_rows, N_USED] from SCORES f32 rows."""

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
        sum_used = v.f32(0.0)
        for k in range(n_used):
            best = 0
            for i in range(1, n):
                if v.ld_f32(p + i * 4) > v.ld_f32(p + best * 4):
                    best = i
            share = v.f32(v.ld_f32(p + best * 4) / total)
            v.st_i64(chosen + k * 8, best)
            v.st_f32(shares + k * 4, share)
            sum_used = v.f32(sum_used + share)
            v.st_f32(p + best * 4, v.f32(-1.0))
        sum_used = max(sum_used, v.f32(6.103515625e-5))
        for k in range(n_used):
            v.st_f32(shares + k * 4, v.f32(v.ld_f32(shares + k * 4) / sum_used))

    return run


OUT, OUT_ROW, N, C_N_USED, C_SHARES, X, X_ROW = range(0, 56, 8)


def combine():
    """(args, row, tid): X row += sum over k ascending of share k * OUT row (row, k), by fma."""

    def run(args, row, tid):
        n_used = v.ld_i64(args + C_N_USED)
        stride = v.ld_i64(args + OUT_ROW)
        out = v.ld_i64(args + OUT) + row * n_used * stride
        shares = v.ld_i64(args + C_SHARES) + row * n_used * 4
        x = v.ld_i64(args + X) + row * v.ld_i64(args + X_ROW)
        for i in range(0, v.ld_i64(args + N) * 4, 64):
            acc = v.zero_f32()
            for k in range(n_used):
                acc = v.fma(acc, v.ld_f32x16(out + k * stride + i), v.bcast_f32(shares + k * 4))
            v.st_f32x16(x + i, v.add(v.ld_f32x16(x + i), acc))

    return run
