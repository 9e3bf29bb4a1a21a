"""The executor: threads walk the ops of a step. One native call a step; layout.py has the tables.

An op ends when its CHUNKS are done, whoever did them: nobody waits for a thread that holds no chunk, so a thread that
the system has descheduled delays nobody. Claims are compare-and-swap on (op, count): a thread that is late by any
time can claim nothing of an op that has ended. What a late thread may still read (a plan that is being rewritten) it
reads before it checks that its op is still the current one, and forgets if it is not.

A step that is cut (cut.py) goes on claiming the chunks of its current op, so that the op ends as any other, but passes
over them; who ends the op publishes the step's end instead of the next op. Once set the step's word stays set, and who
ends an op has synchronised with all who worked on it (DONE): so no op is left with a hole and taken for whole.
"""

import sys

from llvmlite import ir
from numba.core import cgutils

from chenxing.kernels import layout as L
from chenxing.kernels.simd import I64, call, kernel_inline, ld_i64, op, st_i64, void
from chenxing.kernels.simd import i64 as i64_t

SPINS, YIELDS = 200, 2000


def _word(b, p):
    return b.inttoptr(p, I64.as_pointer())


def _cas(b, p, old, new):
    return b.zext(b.extract_value(b.cmpxchg(_word(b, p), old, new, "acq_rel", "acquire"), 1), I64)


fetch_add = op(i64_t, (i64_t, i64_t), lambda b, p, v: b.atomic_rmw("add", _word(b, p), v, "seq_cst"))
load_acquire = op(i64_t, (i64_t,), lambda b, p: b.load_atomic(_word(b, p), "acquire", 8))
store_seq = op(void, (i64_t, i64_t), lambda b, p, v: (b.store_atomic(v, _word(b, p), "seq_cst", 8), None)[1])
cas = op(i64_t, (i64_t, i64_t, i64_t), _cas)


def _pause(b):
    if "x86" in b.module.triple or not b.module.triple:
        call(b, "llvm.x86.sse2.pause", ir.VoidType())


def _yield(b):
    """Give the processor to whoever needs it: one call of the system's C library."""
    name = "SwitchToThread" if sys.platform == "win32" else "sched_yield"
    b.call(cgutils.get_or_insert_function(b.module, ir.FunctionType(ir.IntType(32), []), name), [])


def _call_kernel(b, fn, args, chunk, tid):
    fty = ir.FunctionType(ir.VoidType(), [I64] * 3)
    b.call(b.inttoptr(fn, fty.as_pointer()), [args, chunk, tid])


pause = op(void, (), _pause)
yield_ = op(void, (), _yield)
call_kernel = op(void, (i64_t,) * 4, _call_kernel)


@kernel_inline
def plan_step(program, n_ops, step, plan):
    """Count every part's chunks for this step's counters and list the ops that have work. Returns how many."""
    n = 0
    small = ld_i64(step + 8 * L.N_ROWS) <= L.EACH_ROWS
    for i in range(n_ops):
        rec = program + i * L.OP_BYTES
        when = ld_i64(rec + L.OP_WHEN)
        if when == (L.MANY_ROWS if small else L.FEW_ROWS):
            continue
        total = 0
        for p in range(ld_i64(rec + L.OP_N_PARTS)):
            part = ld_i64(rec + L.OP_PARTS) + p * L.PART_BYTES
            count = ld_i64(part + L.PART_CHUNKS)
            unit = ld_i64(part + L.PART_UNIT)
            if unit > 0:
                divisor = ld_i64(part + L.PART_DIVISOR)
                count *= (ld_i64(step + 8 * unit) + divisor - 1) // divisor
            if when == L.ANY_OUTPUT and ld_i64(step + 8 * L.N_OUTPUTS) == 0:
                count = 0
            st_i64(part + L.PART_COUNT, count)
            total += count
        if total > 0:
            st_i64(rec + L.OP_TOTAL, total)
            st_i64(plan + n * 8, rec)
            n += 1
    return n


@kernel_inline
def claim(word, seq, n):
    """The next chunk of op `seq` in a range of n, or -1."""
    while True:
        v = load_acquire(word)
        taken = 0
        if v >> L.TAG > seq:
            return -1
        if v >> L.TAG == seq:
            taken = v & ((1 << L.TAG) - 1)
        if taken >= n:
            return -1
        if cas(word, v, (seq << L.TAG) + taken + 1) != 0:
            return taken


@kernel_inline
def run_chunk(rec, c, tid):
    """Chunk c of an op: find its part."""
    part = ld_i64(rec + L.OP_PARTS)
    while c >= ld_i64(part + L.PART_COUNT):
        c -= ld_i64(part + L.PART_COUNT)
        part += L.PART_BYTES
    call_kernel(ld_i64(part + L.PART_KERNEL), ld_i64(part + L.PART_ARGS), c, tid)


@kernel_inline
def run_prologue(rec, step, tid):
    fn = ld_i64(rec + L.OP_PROLOGUE)
    n_rows = ld_i64(step + 8 * L.N_ROWS)
    if fn != 0 and n_rows <= L.EACH_ROWS:
        for row in range(n_rows):
            call_kernel(fn, ld_i64(rec + L.OP_PROLOGUE_ARGS), row, tid)


@kernel_inline
def run_ops(ctl, tid, n_threads):
    """Work until the published end."""
    end = load_acquire(ctl + L.END)
    while True:
        seq = load_acquire(ctl + L.CURRENT)
        if seq >= end:
            return
        slot = load_acquire(ctl + L.PLAN) + (seq - load_acquire(ctl + L.BASE)) * 8
        step = load_acquire(ctl + L.STEP)
        cut = load_acquire(ctl + L.CUT)
        if load_acquire(ctl + L.CURRENT) != seq:  # slot may mix two steps
            continue
        rec = load_acquire(slot)
        total = load_acquire(rec + L.OP_TOTAL)
        if load_acquire(ctl + L.CURRENT) != seq:  # total may be the next step's
            continue
        run_prologue(rec, step, tid)
        mine = 0
        for k in range(n_threads):  # the own contiguous range first, then the others'
            t = tid + k
            if t >= n_threads:
                t -= n_threads
            lo = total * t // n_threads
            size = total * (t + 1) // n_threads - lo
            c = claim(ctl + L.CLAIMS + t * 64, seq, size)
            while c >= 0:
                if load_acquire(cut) == 0:
                    run_chunk(rec, lo + c, tid)
                mine += 1
                c = claim(ctl + L.CLAIMS + t * 64, seq, size)
        if mine > 0 and fetch_add(ctl + L.DONE, mine) + mine == total:
            store_seq(ctl + L.DONE, 0)
            store_seq(ctl + L.CURRENT, seq + 1 if load_acquire(cut) == 0 else end)
        else:
            spins = 0
            while load_acquire(ctl + L.CURRENT) == seq:
                spins += 1
                if spins < SPINS:
                    pause()
                else:
                    yield_()


def step():
    """(args, n_threads, unused): args is program, n_ops, step counters, plan, control block, the step's word for a cut.

    The caller is thread 0.
    """

    def run_step(args, n_threads, unused):
        ctl = ld_i64(args + 32)
        base = ld_i64(ctl + L.END)  # equals CURRENT between steps
        n = plan_step(ld_i64(args), ld_i64(args + 8), ld_i64(args + 16), ld_i64(args + 24))
        store_seq(ctl + L.STEP, ld_i64(args + 16))
        store_seq(ctl + L.PLAN, ld_i64(args + 24))
        store_seq(ctl + L.CUT, ld_i64(args + 40))
        store_seq(ctl + L.BASE, base)
        store_seq(ctl + L.END, base + n)
        run_ops(ctl, 0, n_threads)

    return run_step


def worker():
    """(control block, tid, n_threads): take part in steps; return when there was none for a while, or at STOP."""

    def run_worker(ctl, tid, n_threads):
        idle = 0
        while load_acquire(ctl + L.STOP) == 0:
            if load_acquire(ctl + L.CURRENT) < load_acquire(ctl + L.END):
                run_ops(ctl, tid, n_threads)
                idle = 0
                continue
            idle += 1
            if idle < SPINS:
                pause()
            elif idle < SPINS + YIELDS:
                yield_()
            else:
                return

    return run_worker
