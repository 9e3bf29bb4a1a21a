"""Paged attention against the plain softmax, and its bits under any cut of the work."""

import numpy as np
import pytest
from in_process import HERE
from reference.attention import attention, stored

from chenxing.kernels import attention_layout as A
from chenxing.kernels.layout import PAGE, SEGMENT
from chenxing.kernels.memory import address, aligned
from chenxing.models.program import f32_bits

ALL = 1 << 40


class Case:
    """Random q, k, v of one sequence; k and v go through the KV-writing kernel into scattered pages."""

    def __init__(self, compiler, isa, *, head_dim, n_head, n_kv, n_tokens, seed=0, kv_type="f16"):
        self.compiler, self.isa = compiler, isa
        self.hd, self.n_head, self.n_kv, self.n = head_dim, n_head, n_kv, n_tokens
        self.padded = -(-head_dim // 32) * 32
        rng = np.random.default_rng(seed)
        self.q = rng.standard_normal((n_tokens, n_head, head_dim)).astype(np.float32) * 2
        self.k = rng.standard_normal((n_tokens, n_kv, head_dim)).astype(np.float32)
        self.v = rng.standard_normal((n_tokens, n_kv, head_dim)).astype(np.float32)
        n_pages = -(-n_tokens // PAGE)
        self.kv_type = kv_type
        page_bytes = 2 * n_kv * A.KV_TYPES[kv_type].head_bytes(self.padded) + 128  # one layer and something else
        self.memory = aligned((n_pages + 5, page_bytes))
        self.order = rng.permutation(n_pages + 5)[:n_pages]
        self.pages = address(self.memory) + self.order * page_bytes
        self.ready = aligned((n_tokens, n_head, self.padded), np.float32)
        self.scale = head_dim**-0.5
        self.write()

    def write(self):
        row = np.concatenate([x.reshape(self.n, -1) for x in (self.q, self.k, self.v)], axis=1)
        row = np.ascontiguousarray(row)
        at = row.ctypes.data
        q_bytes, k_bytes = self.n_head * self.hd * 4, self.n_kv * self.hd * 4
        positions = np.arange(self.n)
        page_at = self.pages[positions // PAGE]
        slots = positions % PAGE
        scratch = aligned(self.padded * 4 + 128)
        args = [at, at + q_bytes, at + q_bytes + k_bytes, row.shape[1] * 4, self.n_head, self.n_kv, self.hd, 2, 0]
        args += [0, 0, 0, page_at, slots, 128, self.ready, f32_bits(self.scale * 1.4426950408889634), scratch, 0]
        self.compiler.call(f"chenxing.kernels.rope:rope_kv({self.kv_type})", self.isa, *args, n_chunks=self.n)

    def read(self, part):
        """f32[n_tokens, n_kv, head_dim] of K (0) or V (1), by the layout in attention_layout.py."""
        t = A.KV_TYPES[self.kv_type]
        layer = self.memory[self.order, 128:].reshape(len(self.order), 2, self.n_kv, self.padded // 32, t.strip_bytes)
        strips = layer[:, part]
        lines = strips[..., t.header_bytes :]
        if self.kv_type == "bf16":
            values = (lines.copy().view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            dtype = {"f16": np.float16, "f32": np.float32, "q8_0": np.int8}[self.kv_type]
            values = lines.copy().view(dtype).astype(np.float32)
        values = values.reshape(*strips.shape[:3], 32, 32)  # [page, kv head, strip, dim, token] of K
        values = values.swapaxes(-1, -2) if part == 0 else values
        if t.header_bytes:
            values = values * strips[..., : t.header_bytes].copy().view(np.float16).astype(np.float32)[..., None]
        values = values.transpose(0, 3, 1, 2, 4).reshape(-1, self.n_kv, self.padded)
        return values[: self.n, :, : self.hd] + np.float32(0)

    def attend(self, runs, *, window=ALL, cap=0.0, sinks=None, segments=False):
        """runs: (first, n) of this sequence's rows. -> f32[n_tokens, n_head, head_dim]

        One task for each run, or with `segments` one for each of its segments, last ones first, and merges.
        """
        tasks, merges, place = [], [], 0
        for first, n in runs:
            last = (first + n - 1) // SEGMENT if segments else 0
            for segment in range(last, -1, -1):
                tasks.append((first, n, self.pages.ctypes.data, segment, 1 + place + segment * n if segments else 0))
            merges += [(first + i, place + i, n) for i in range(n)] if segments else []
            place += (last + 1) * n
        out = np.zeros((self.n, self.n_head * self.hd), np.float32)
        scratch = aligned(A.scratch_bytes(self.padded, self.n_head // self.n_kv))
        partials = aligned((place if segments else 1, self.n_head, A.state_bytes(self.padded)))
        partials[:] = 0x77  # nothing of what is not computed may show
        table, positions = np.array(tasks, np.int64), np.arange(self.n)
        logits = 0 if sinks is None else sinks
        args = [self.ready, self.n_head, self.n_kv, table, 128, window, f32_bits(cap), logits]
        args += [out, out.shape[1] * 4, scratch, 0, positions, self.hd, partials]
        kernel = f"chenxing.kernels.attention:attend({self.padded},{self.kv_type})"
        self.compiler.call(kernel, self.isa, *args, n_chunks=len(tasks) * self.n_kv)
        if segments:
            args = [self.n_head, np.array(merges, np.int64), positions, window, logits, out, out.shape[1] * 4]
            args += [self.hd, partials, scratch, 0]
            kernel = f"chenxing.kernels.attention:merge_segments({self.padded})"
            self.compiler.call(kernel, self.isa, *args, n_chunks=len(merges) * self.n_head)
        return out.reshape(self.n, self.n_head, self.hd)

    def naive(self, rows, *, window=ALL, cap=0.0, sinks=None):
        """These rows by the softmax written out in f64 over what the pages hold."""
        k, v = (stored(self.kv_type, x).astype(np.float64) for x in (self.k, self.v))
        out = np.empty((len(rows), self.n_head, self.hd))
        for o, i in enumerate(rows):
            lo = max(0, i - window + 1)
            for h in range(self.n_head):
                kv = h // (self.n_head // self.n_kv)
                s = k[lo : i + 1, kv] @ self.q[i, h].astype(np.float64) * self.scale
                s = cap * np.tanh(s / cap) if cap else s
                w = np.exp(s - s.max())
                extra = 0.0 if sinks is None else np.exp(sinks[h] - s.max())
                out[o, h] = w @ v[lo : i + 1, kv] / (w.sum() + extra)
        return out

    def twin(self, rows, *, window=ALL, sinks=None):
        """These rows by the same operations as the kernel's, one after the other."""
        k, v = stored(self.kv_type, self.k), stored(self.kv_type, self.v)
        q = self.q * np.float32(self.scale * 1.4426950408889634)
        out = np.empty((len(rows), self.n_head, self.hd), np.float32)
        for o, i in enumerate(rows):
            for h in range(self.n_head):
                kv = h // (self.n_head // self.n_kv)
                sink = None if sinks is None else sinks[h]
                out[o, h] = attention(q[i, h], k[:, kv], v[:, kv], i, window=window, sink=sink)
        return out


def tasks(n, group):
    size = A.task_rows(group)
    return [(i, min(size, n - i)) for i in range(0, n, size)]


def bits(x):
    return x.view(np.int32)


SHAPES = [(64, 9, 3), (128, 8, 1), (8, 4, 2)]


@pytest.mark.parametrize(("head_dim", "n_head", "n_kv"), SHAPES)
@pytest.mark.parametrize("window", [ALL, 100])
def test_equals_the_plain_softmax(compiler, head_dim, n_head, n_kv, window):
    case = Case(compiler, HERE[0], head_dim=head_dim, n_head=n_head, n_kv=n_kv, n_tokens=600, kv_type="f32")
    out = case.attend(tasks(600, n_head // n_kv), window=window)
    rows = [*range(0, 600, 7), *range(505, 520), 599]  # the border of a segment among them
    # f32 sums of up to 600 terms against f64: relative to the largest value
    assert np.abs(out[rows] - case.naive(rows, window=window)).max() < 1e-6 * np.abs(out).max()


@pytest.mark.parametrize("kv_type", A.KV_TYPES)
@pytest.mark.parametrize(("head_dim", "n_head", "n_kv", "window"), [(64, 5, 1, ALL), (40, 2, 1, 130)])
def test_equals_its_twin_to_the_bit(compiler, isa, kv_type, head_dim, n_head, n_kv, window):
    case = Case(compiler, isa, head_dim=head_dim, n_head=n_head, n_kv=n_kv, n_tokens=560, kv_type=kv_type)
    rows = [0, 31, 130, 511, 512, 559]
    sinks = np.linspace(-2, 3, n_head).astype(np.float32)
    for how in ({}, {"sinks": sinks}):
        out = case.attend([(i, 1) for i in rows], window=window, **how)[rows]
        assert np.array_equal(bits(out), bits(case.twin(rows, window=window, **how)))


@pytest.mark.parametrize("kv_type", A.KV_TYPES)
def test_pages_hold_what_was_written(compiler, isa, kv_type):
    """Scales of q8_0 for zeros, for tiny values that f16 rounds away, and for values of every size."""
    case = Case(compiler, isa, head_dim=64, n_head=1, n_kv=2, n_tokens=40, kv_type=kv_type)
    case.k *= 10.0 ** np.linspace(-9, 4, 40).astype(np.float32)[:, None, None]
    case.v[7] = 0.0
    case.write()
    for i, x in enumerate((case.k, case.v)):
        assert np.array_equal(bits(case.read(i)), bits(stored(kv_type, x) + np.float32(0)))


def test_sinks(compiler, isa):
    """A sink takes its share of the weight and gives nothing."""
    case = Case(compiler, isa, head_dim=64, n_head=4, n_kv=2, n_tokens=90)
    sinks = np.array([-40.0, 0.0, 3.0, 40.0], np.float32)
    out = case.attend(tasks(90, 2), sinks=sinks)
    assert np.abs(out - case.naive(range(90), sinks=sinks)).max() < 4e-6
    assert np.abs(out[:, 3]).max() < 1e-9 and np.abs(out[:, 0]).max() > 1


def test_softcap(compiler, isa):
    case = Case(compiler, isa, head_dim=64, n_head=4, n_kv=2, n_tokens=90)
    out = case.attend(tasks(90, 2), cap=2.0)
    assert np.abs(out - case.naive(range(90), cap=2.0)).max() < 4e-6
    assert np.abs(out - case.naive(range(90))).max() > 1e-3  # and it does something


@pytest.mark.parametrize("window", [ALL, 37])
@pytest.mark.parametrize("kv_type", A.KV_TYPES)
def test_bits_do_not_depend_on_the_cut(compiler, isa, window, kv_type):
    n = 1100
    case = Case(compiler, isa, head_dim=64, n_head=6, n_kv=2, n_tokens=n, seed=5, kv_type=kv_type)
    how = {"window": window, "sinks": np.linspace(-1, 2, 6).astype(np.float32)}
    whole = case.attend(tasks(n, 3), **how)
    single = range(0, n, 5)
    assert np.array_equal(bits(whole[single]), bits(case.attend([(i, 1) for i in single], **how)[single]))
    rng = np.random.default_rng(1)
    cuts = np.sort(rng.choice(np.arange(1, n), 300, replace=False)).tolist()
    odd = [(a, b - a) for a, b in zip([0, *cuts], [*cuts, n], strict=True)]
    odd = [(a + i, min(21, n - i)) for a, n in odd for i in range(0, n, 21)]
    assert np.array_equal(bits(whole), bits(case.attend(odd, **how)))
    some = [(0, 3), (500, 21), (1020, 7), (1099, 1)]
    rows = [i for first, n in some for i in range(first, first + n)]
    assert np.array_equal(bits(whole[rows]), bits(case.attend(some, segments=True, **how)[rows]))


def test_softcap_does_not_depend_on_the_instruction_set(compiler):
    """What the twin leaves out."""
    outs = [
        Case(compiler, isa, head_dim=64, n_head=6, n_kv=2, n_tokens=90).attend(tasks(90, 3), cap=9.0) for isa in HERE
    ]
    for other in outs[1:]:
        assert np.array_equal(bits(outs[0]), bits(other))


def test_stale_pages_do_not_matter(compiler, isa):
    """Slots past the last token keep what an earlier sequence wrote there."""
    case = Case(compiler, isa, head_dim=64, n_head=2, n_kv=1, n_tokens=40)
    clean = case.attend(tasks(40, 2))
    layer = case.memory[case.order[1], 128:].view(np.float16)
    k = layer[: 64 * PAGE].reshape(64, PAGE)
    k[:, 8:] = 60000.0
    layer[64 * PAGE :].reshape(2, PAGE, 32)[:, 8:] = -60000.0
    assert np.array_equal(bits(clean), bits(case.attend(tasks(40, 2))))
