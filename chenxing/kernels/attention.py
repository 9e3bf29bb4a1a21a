"""Paged flash attention: one sequence of operations per query row (law L2).

A *segment* is SEGMENT keys at a fixed absolute position. Its partial result (attention_segment.py) is the same for a
row in any tile and on any thread, and segments merge in ascending order (online_softmax.py). A task is some rows of
one sequence; either one chunk walks all of its segments, or there is a chunk for every segment, which leaves its
result in A_PARTIALS, and `merge_segments` joins them in the next op: the same operations, so that a step may choose
by what keeps the threads busy.
Source  Dao 2022 (FlashAttention), Ainslie 2023 (GQA), Kwon 2023 (paged KV), Xiao 2023 (attention sinks).
"""

from chenxing.kernels import layout as L
from chenxing.kernels import simd as v
from chenxing.kernels.attention_layout import (
    MAX_TILE,
    MERGE_EVERY,
    MERGE_PLACE,
    MERGE_ROW,
    MERGE_WORDS,
    TASK_N,
    TASK_PAGES,
    TASK_PLACE,
    TASK_ROW,
    TASK_SEGMENT,
    TASK_WORDS,
    state_bytes,
)
from chenxing.kernels.attention_segment import SCORE_ROW, segment_tile
from chenxing.kernels.kv_formats import FORMATS
from chenxing.kernels.online_softmax import clear, finish, merge
from chenxing.kernels.simd import Target, kernel_inline

SEGMENT = L.SEGMENT
PAGES = SEGMENT // L.PAGE * 8  # bytes of a segment's page addresses

A_Q, A_N_HEAD, A_N_KV, A_TASKS, A_LAYER, A_WINDOW, A_CAP, A_SINKS, A_OUT, A_OUT_ROW, A_SCRATCH, A_SCRATCH_EACH, \
    A_POSITIONS, A_HEAD_DIM, A_PARTIALS = range(0, 120, 8)  # fmt: skip


def tile_shapes() -> tuple[tuple[int, int], tuple[int, int]]:
    """(rows, vectors) of a wide and a narrow tile: rows share a load of K or V, sums stay in registers.

    On AVX2 the conversion of f16 limits 3 rows x 2 vectors to half of what fma can do, and 6 x 1 reaches nine tenths;
    the narrow tile, for decoding, still takes keys in faster than memory gives them.
    """
    if not Target.isa.fma:  # its emulation is all that counts
        return (3, 1), (1, 1)
    return {512: ((8, 2), (4, 2)), 256: ((6, 1), (4, 1)), 128: ((6, 1), (4, 1))}[Target.isa.bits]


def attend(padded, kv_type):
    """(args, chunk, tid): chunk = (task, kv head). padded = head_dim rounded up to 32.

    A_Q  f32[n_rows, n_head, padded], scaled by scale * log2 e; A_TASKS i64[n_tasks, TASK_WORDS]
    A_LAYER  offset of this layer in every page
    A_WINDOW  keys a row sees, itself included; A_CAP f32 soft-cap of scores (0: none)
    A_SINKS  f32[n_head] logits that take part in the sum of the softmax, or 0
    A_OUT  f32 rows of n_head * head_dim, A_OUT_ROW bytes apart
    A_PARTIALS  states [PLACES, n_head] of tasks of one segment
    """
    form = FORMATS[kv_type]
    ROW = padded * 4  # of q
    STATE = state_bytes(padded)
    HEAD = form.type.head_bytes(padded)
    (WIDE, P), (NARROW, NARROW_P) = tile_shapes()
    wide = segment_tile(padded, form, WIDE, P, SEGMENT // L.PAGE)
    narrow = segment_tile(padded, form, NARROW, NARROW_P, 1)

    @kernel_inline
    def copy_queries(src, first, m, n_rows, n_head, G, q):
        """Rows first.. of the task, in order (token, head of the group); the last one of m fills the tile."""
        for r in range(n_rows):
            e = first + min(r, m - 1)
            p = src + (e // G * n_head + e % G) * ROW
            for c in range(0, ROW, 64):
                v.st_f32x16(q + r * ROW + c, v.ld_f32x16(p + c))

    @kernel_inline
    def keep(part, m, first, G, n_head, dst):
        """A tile's partial results to their places."""
        for r in range(m):
            e = first + r
            p = dst + (e // G * n_head + e % G) * STATE
            for c in range(0, STATE, 64):
                v.st_f32x16(p + c, v.ld_f32x16(part + r * STATE + c))

    def run(args, chunk, tid):
        n_head = v.ld_i64(args + A_N_HEAD)
        n_kv = v.ld_i64(args + A_N_KV)
        hd = v.ld_i64(args + A_HEAD_DIM)
        G = n_head // n_kv
        kv = chunk % n_kv
        task = v.ld_i64(args + A_TASKS) + chunk // n_kv * (8 * TASK_WORDS)
        row0 = v.ld_i64(task + TASK_ROW)
        n = v.ld_i64(task + TASK_N) * G
        table = v.ld_i64(task + TASK_PAGES)
        place = v.ld_i64(task + TASK_PLACE)
        keys = v.ld_i64(args + A_LAYER) + kv * HEAD  # in every page
        values = keys + n_kv * HEAD
        window = v.ld_i64(args + A_WINDOW)
        cap = v.ld_f32(args + A_CAP)
        state = v.ld_i64(args + A_SCRATCH) + tid * v.ld_i64(args + A_SCRATCH_EACH)
        part = state + n * STATE
        s = part + MAX_TILE * STATE
        pos = s + MAX_TILE * SCORE_ROW
        q = pos + n * 8
        queries = v.ld_i64(args + A_Q) + (row0 * n_head + kv * G) * ROW
        partials = v.ld_i64(args + A_PARTIALS) + ((place - 1) * n_head + kv * G) * STATE
        pos0 = v.ld_i64(v.ld_i64(args + A_POSITIONS) + row0 * 8)
        for i in range(n):
            v.st_i64(pos + i * 8, pos0 + i // G)
        begin = max(0, pos0 - window + 1) // SEGMENT
        end = (pos0 + (n - 1) // G) // SEGMENT + 1
        last_page = (pos0 + (n - 1) // G) // L.PAGE
        if place != 0:
            begin = v.ld_i64(task + TASK_SEGMENT)
            end = begin + 1
        else:
            clear(state, n * STATE)
        for index in range(begin, end):
            base = index * SEGMENT
            tab = table + index * PAGES
            after, after_tab, n_after = keys, tab + PAGES, last_page + 1 - (index + 1) * (SEGMENT // L.PAGE)
            if index + 1 == end:  # the next chunk is the next head's, if this thread takes it
                after, after_tab, n_after = keys + HEAD, table + begin * PAGES, 0
                if kv + 1 < n_kv:
                    n_after = last_page + 1 - begin * (SEGMENT // L.PAGE)
            i = 0
            while i < n:
                p = pos + i * 8
                if n - i > NARROW:
                    m = min(WIDE, n - i)
                    copy_queries(queries, i, m, WIDE, n_head, G, q)
                    any_key = wide(q, p, m, keys, values, tab, after, after_tab, n_after, base, window, cap, part, s)
                else:
                    m = n - i
                    copy_queries(queries, i, m, NARROW, n_head, G, q)
                    any_key = narrow(q, p, m, keys, values, tab, after, after_tab, n_after, base, window, cap, part, s)
                if any_key != 0 and place != 0:
                    keep(part, m, i, G, n_head, partials)
                elif any_key != 0:
                    for r in range(m):
                        merge(state + (i + r) * STATE, part + r * STATE, STATE)
                i += m
        if place == 0:
            sinks = v.ld_i64(args + A_SINKS)
            for i in range(n):
                dst = v.ld_i64(args + A_OUT) + (row0 + i // G) * v.ld_i64(args + A_OUT_ROW)
                h = kv * G + i % G
                sink = 0
                if sinks != 0:
                    sink = sinks + h * 4
                finish(state + i * STATE, sink, hd, dst + h * hd * 4)

    return run


M_N_HEAD, M_MERGES, M_POSITIONS, M_WINDOW, M_SINKS, M_OUT, M_OUT_ROW, M_HEAD_DIM, M_PARTIALS, M_SCRATCH, \
    M_SCRATCH_EACH = range(0, 88, 8)  # fmt: skip


def merge_segments(padded):
    """(args, chunk, tid): chunk = (merge, head): one row and head of a task that was cut into segments.

    M_MERGES i64[n_merges, MERGE_WORDS]; the others as attend's. Segments outside the row's window were not computed.
    """
    STATE = state_bytes(padded)

    def run(args, chunk, tid):
        n_head = v.ld_i64(args + M_N_HEAD)
        hd = v.ld_i64(args + M_HEAD_DIM)
        h = chunk % n_head
        item = v.ld_i64(args + M_MERGES) + chunk // n_head * (8 * MERGE_WORDS)
        row = v.ld_i64(item + MERGE_ROW)
        every = v.ld_i64(item + MERGE_EVERY) * n_head * STATE
        part = v.ld_i64(args + M_PARTIALS) + (v.ld_i64(item + MERGE_PLACE) * n_head + h) * STATE
        pos = v.ld_i64(v.ld_i64(args + M_POSITIONS) + row * 8)
        state = v.ld_i64(args + M_SCRATCH) + tid * v.ld_i64(args + M_SCRATCH_EACH)
        clear(state, STATE)
        for index in range(max(0, pos - v.ld_i64(args + M_WINDOW) + 1) // SEGMENT, pos // SEGMENT + 1):
            merge(state, part + index * every, STATE)
        sink = v.ld_i64(args + M_SINKS)
        if sink != 0:
            sink += h * 4
        finish(state, sink, hd, v.ld_i64(args + M_OUT) + row * v.ld_i64(args + M_OUT_ROW) + h * hd * 4)

    return run
