"""Paged attention against the plain softmax, and its bits under any cut of the work."""

import numpy as np
import pytest
from in_process import HERE

from chenxing.kernels import attention_layout as A
from chenxing.kernels.layout import PAGE
from chenxing.kernels.memory import address, aligned
from chenxing.models.program import f32_bits

ALL = 1 << 40


class Case:
    """Random q, k, v of one sequence; k and v go through the KV-writing kernel into scattered pages."""

    def __init__(self, compiler, isa, *, head_dim, n_head, n_kv, n_tokens, seed=0):
        self.compiler, self.isa = compiler, isa
        self.hd, self.n_head, self.n_kv, self.n = head_dim, n_head, n_kv, n_tokens
        self.padded = -(-head_dim // 32) * 32
        rng = np.random.default_rng(seed)
        self.q = rng.standard_normal((n_tokens, n_head, head_dim)).astype(np.float32) * 2
        self.k = rng.standard_normal((n_tokens, n_kv, head_dim)).astype(np.float32)
        self.v = rng.standard_normal((n_tokens, n_kv, head_dim)).astype(np.float32)
        n_pages = -(-n_tokens // PAGE)
        page_bytes = 2 * n_kv * self.padded * PAGE * 2 + 128  # one layer and something else
        self.memory = aligned((n_pages + 5, page_bytes))
        self.order = rng.permutation(n_pages + 5)[:n_pages]
        self.pages = address(self.memory) + self.order * page_bytes
        self.ready = aligned((n_tokens, n_head, self.padded), np.float32)
        self.scale = head_dim**-0.5
        self._write()

    def _write(self):
        row = np.concatenate([x.reshape(self.n, -1) for x in (self.q, self.k, self.v)], axis=1)
        row = np.ascontiguousarray(row)
        at = row.ctypes.data
        q_bytes, k_bytes = self.n_head * self.hd * 4, self.n_kv * self.hd * 4
        positions = np.arange(self.n)
        page_at = self.pages[positions // PAGE]
        slots = positions % PAGE
        scratch = aligned(self.padded * 4)
        args = [at, at + q_bytes, at + q_bytes + k_bytes, row.shape[1] * 4, self.n_head, self.n_kv, self.hd, 2, 0]
        args += [0, 0, 0, page_at, slots, 128, self.ready, f32_bits(self.scale * 1.4426950408889634), scratch, 0]
        self.compiler.call("chenxing.kernels.attention:rope_kv", self.isa, *args, n_chunks=self.n)

    def attend(self, runs, *, window=ALL, cap=0.0):
        """runs: (first, n) of this sequence's rows, one task each. -> f32[n_tokens, n_head, head_dim]"""
        tasks = np.array([(first, n, self.pages.ctypes.data) for first, n in runs], np.int64)
        out = np.zeros((self.n, self.n_head * self.hd), np.float32)
        scratch = aligned(A.scratch_bytes(self.padded, self.n_head // self.n_kv))
        args = [self.ready, self.n_head, self.n_kv, tasks, 128, window]
        args += [f32_bits(cap), out, out.shape[1] * 4, scratch, 0, np.arange(self.n), self.hd]
        kernel = f"chenxing.kernels.attention:attend({self.padded})"
        self.compiler.call(kernel, self.isa, *args, n_chunks=len(runs) * self.n_kv)
        return out.reshape(self.n, self.n_head, self.hd)

    def naive(self, rows, *, window=ALL, cap=0.0):
        """These rows by the softmax written out in f64 over what the pages hold: k and v rounded to f16."""
        k, v = (x.astype(np.float16).astype(np.float64) for x in (self.k, self.v))
        out = np.empty((len(rows), self.n_head, self.hd))
        for o, i in enumerate(rows):
            lo = max(0, i - window + 1)
            for h in range(self.n_head):
                kv = h // (self.n_head // self.n_kv)
                s = k[lo : i + 1, kv] @ self.q[i, h].astype(np.float64) * self.scale
                s = cap * np.tanh(s / cap) if cap else s
                w = np.exp(s - s.max())
                out[o, h] = w @ v[lo : i + 1, kv] / w.sum()
        return out


def tasks(n, group):
    size = A.task_rows(group)
    return [(i, min(size, n - i)) for i in range(0, n, size)]


def bits(x):
    return x.view(np.int32)


SHAPES = [(64, 9, 3), (128, 8, 1), (8, 4, 2)]


@pytest.mark.parametrize(("head_dim", "n_head", "n_kv"), SHAPES)
@pytest.mark.parametrize("window", [ALL, 100])
def test_equals_the_plain_softmax(compiler, isa, head_dim, n_head, n_kv, window):
    case = Case(compiler, isa, head_dim=head_dim, n_head=n_head, n_kv=n_kv, n_tokens=600)
    out = case.attend(tasks(600, n_head // n_kv), window=window)
    rows = [*range(0, 600, 7), *range(505, 520), 599]  # the border of a segment among them
    # f32 sums of up to 600 terms against f64: relative to the largest value
    assert np.abs(out[rows] - case.naive(rows, window=window)).max() < 4e-6 * np.abs(out).max()


def test_softcap(compiler, isa):
    case = Case(compiler, isa, head_dim=64, n_head=4, n_kv=2, n_tokens=90)
    out = case.attend(tasks(90, 2), cap=2.0)
    assert np.abs(out - case.naive(range(90), cap=2.0)).max() < 4e-6
    assert np.abs(out - case.naive(range(90))).max() > 1e-3  # and it does something


@pytest.mark.parametrize("window", [ALL, 37])
def test_bits_do_not_depend_on_the_cut(compiler, isa, window):
    case = Case(compiler, isa, head_dim=64, n_head=6, n_kv=2, n_tokens=1100, seed=5)
    whole = case.attend(tasks(1100, 3), window=window)
    single = case.attend([(i, 1) for i in range(1100)], window=window)
    assert np.array_equal(bits(whole), bits(single))
    rng = np.random.default_rng(1)
    cuts = np.sort(rng.choice(np.arange(1, 1100), 300, replace=False)).tolist()
    odd = [(a, b - a) for a, b in zip([0, *cuts], [*cuts, 1100], strict=True)]
    odd = [(a + i, min(21, n - i)) for a, n in odd for i in range(0, n, 21)]
    assert np.array_equal(bits(whole), bits(case.attend(odd, window=window)))


def test_bits_do_not_depend_on_the_instruction_set(compiler):
    outs = [
        Case(compiler, isa, head_dim=64, n_head=6, n_kv=2, n_tokens=700, seed=2).attend(tasks(700, 3)) for isa in HERE
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
