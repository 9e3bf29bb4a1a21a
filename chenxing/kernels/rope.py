"""RoPE and the KV write: what happens to q, k and v between their matrices and attention.

Every element goes through the same few operations, whichever lanes do them: x r w for a norm, then
(x c - y s, x s + y c) with each product and each sum rounded, then q's scale or the conversion to the KV type.
Source  Su 2021 (RoPE); the pairs are (i, i + n_rot / 2), as in GPT-NeoX.
"""

from llvmlite.ir import IntType

from chenxing.kernels import simd as v
from chenxing.kernels.attention_layout import STRIP
from chenxing.kernels.kv_formats import FORMATS
from chenxing.kernels.maths import sincos
from chenxing.kernels.rows import rms_scale
from chenxing.kernels.simd import i64, kernel_inline, load, op, store, void

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


# ---- rotation and KV write ----

(Q, K, V, ROW, N_HEAD, N_HEAD_KV, HEAD_DIM, N_ROT, ROPE, Q_NORM, K_NORM, EPS, PAGES, SLOTS, LAYER, Q_OUT, Q_SCALE,
 SCRATCH, SCRATCH_EACH) = range(0, 152, 8)  # fmt: skip


_copy_element = {
    n: op(void, (i64, i64), lambda b, p, q, n=n: store(b, q, load(b, p, IntType(8 * n)))) for n in (1, 2, 4)
}


@kernel_inline
def _copy_head(src, hd, padded, dst):
    """f32[hd] -> f32[padded], zeros at the end."""
    full = hd // 16 * 16
    for d in range(0, full, 16):
        v.st_f32x16(dst + d * 4, v.ld_f32x16(src + d * 4))
    for d in range(full, padded, 16):
        v.st_f32x16(dst + d * 4, v.zero_f32())
    for d in range(full, hd):
        v.st_f32(dst + d * 4, v.ld_f32(src + d * 4))


@kernel_inline
def _norm_head(x, hd, weight, eps):
    """RMS norm in place."""
    r = rms_scale(x, hd, eps)
    full = hd // 16 * 16
    for d in range(0, full, 16):
        v.st_f32x16(x + d * 4, v.mul(v.mul(v.ld_f32x16(x + d * 4), v.splat_f32(r)), v.ld_f32x16(weight + d * 4)))
    for d in range(full, hd):
        v.st_f32(x + d * 4, v.f32(v.f32(v.ld_f32(x + d * 4) * r) * v.ld_f32(weight + d * 4)))


@kernel_inline
def _rotate(head, half, table):
    """The pairs (i, i + half) in place; table f32[2, half]: cos, sin."""
    full = half // 16 * 16
    for i in range(0, full, 16):
        c = v.ld_f32x16(table + i * 4)
        s = v.ld_f32x16(table + (half + i) * 4)
        x = v.ld_f32x16(head + i * 4)
        y = v.ld_f32x16(head + (half + i) * 4)
        v.st_f32x16(head + i * 4, v.sub(v.mul(x, c), v.mul(y, s)))
        v.st_f32x16(head + (half + i) * 4, v.add(v.mul(x, s), v.mul(y, c)))
    for i in range(full, half):
        c = v.ld_f32(table + i * 4)
        s = v.ld_f32(table + (half + i) * 4)
        x = v.ld_f32(head + i * 4)
        y = v.ld_f32(head + (half + i) * 4)
        v.st_f32(head + i * 4, v.f32(v.f32(x * c) - v.f32(y * s)))
        v.st_f32(head + (half + i) * 4, v.f32(v.f32(x * s) + v.f32(y * c)))


def rope_kv(kv_type):
    """(args, row, tid): rotate q and k of a row, write k and v into the row's page, q scaled and padded to Q_OUT.

    Q, K, V   f32 rows, ROW bytes apart; Q_OUT f32[n_rows, N_HEAD, padded head_dim], times Q_SCALE
    ROPE      the step's table, or 0 for a layer without positions
    Q_NORM, K_NORM   f32[head_dim] weights of a norm per head, or 0
    PAGES i64[n_rows] address of the row's page, SLOTS i64[n_rows] its place in it, LAYER offset of this layer
    SCRATCH   padded head_dim + 32 f32 a thread
    """
    form = FORMATS[kv_type]
    HEADER, LINE, STRIP_BYTES = form.type.header_bytes, form.type.line_bytes, form.type.strip_bytes
    SIZE = form.type.element_bytes
    copy_element = _copy_element[SIZE]
    encode = form.encode

    @kernel_inline
    def prepare(src, hd, padded, n_rot, table, norm, eps, dst):
        _copy_head(src, hd, padded, dst)
        if norm != 0:
            _norm_head(dst, hd, norm, eps)
        if table != 0:
            _rotate(dst, n_rot // 2, table)

    @kernel_inline
    def write_k(head, padded, tmp, strip, slot):
        """A token's column of every strip."""
        for _ in range(padded // STRIP):
            d = encode(head, tmp)
            if HEADER:
                v.st_f16(strip + slot * 2, d)
            for i in range(STRIP):
                copy_element(tmp + i * SIZE, strip + HEADER + i * LINE + slot * SIZE)
            head += STRIP * 4
            strip += STRIP_BYTES

    @kernel_inline
    def write_v(head, padded, strip, slot):
        """A token's line of every strip."""
        for _ in range(padded // STRIP):
            d = encode(head, strip + HEADER + slot * LINE)
            if HEADER:
                v.st_f16(strip + slot * 2, d)
            head += STRIP * 4
            strip += STRIP_BYTES

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
            prepare(src, hd, padded, n_rot, table, v.ld_i64(args + Q_NORM), eps, dst)
            for i in range(0, padded * 4, 64):
                v.st_f32x16(dst + i, v.mul(v.ld_f32x16(dst + i), scale))
        page = v.ld_i64(v.ld_i64(args + PAGES) + row * 8) + v.ld_i64(args + LAYER)
        slot = v.ld_i64(v.ld_i64(args + SLOTS) + row * 8)
        tmp = v.ld_i64(args + SCRATCH) + tid * v.ld_i64(args + SCRATCH_EACH)
        head_bytes = padded // STRIP * STRIP_BYTES
        for h in range(n_kv):
            src = v.ld_i64(args + K) + offset + h * hd * 4
            prepare(src, hd, padded, n_rot, table, v.ld_i64(args + K_NORM), eps, tmp)
            write_k(tmp, padded, tmp + padded * 4, page + h * head_bytes, slot)
            _copy_head(v.ld_i64(args + V) + offset + h * hd * 4, hd, padded, tmp)
            write_v(tmp, padded, page + (n_kv + h) * head_bytes, slot)

    return run
