"""The vocabulary of forward passes. Each call records what a kernel will do; fusion is decided here, out of sight.

What stays symbolic until a matrix asks for it: norms, gated activations and selections of rows. A matrix takes them
in its own form (int8 blocks or f32), made by an op of its own in large steps and by every thread for itself, without
a hand-over, in small ones.

Over 300 lines because the vocabulary is one thing: every word shares the recorder's memory.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from chenxing.kernels import attention_layout as A
from chenxing.kernels import layout as L
from chenxing.kernels.memory import aligned
from chenxing.models.mixture import Pairs
from chenxing.models.program import Part, Program, Prologue, f32_bits
from chenxing.models.rope import Rope, frequencies
from chenxing.models.spec import HParams
from chenxing.models.step import Step
from chenxing.models.values import Experts, Gated, Normed, Operand, Product, Rows
from chenxing.models.weights import Matrix, Table

_ROWS, _ROPE, _ATTENTION, _QUANTS = (
    "chenxing.kernels.rows",
    "chenxing.kernels.rope",
    "chenxing.kernels.attention",
    "chenxing.quants.kernels",
)
ALL_KEYS = 1 << 40


def kv_layer_bytes(hp: HParams, kv_type: str) -> int:
    """K and V of one layer in a page: head_dim padded to a multiple of 32."""
    return 2 * hp.n_head_kv * A.KV_TYPES[kv_type].head_bytes(_padded(hp.head_dim))


def _padded(n: int, multiple: int = 32) -> int:
    return -(-n // multiple) * multiple


class Recorder:
    """Records one model's forward pass into `program`.

    Buffers are named by role and shared by all layers: the op that reads one is over before the next writes it.
    Words that change rows in place return new rows: a value never changes, and nothing is done with an old one.
    """

    def __init__(self, hp: HParams, step: Step, n_threads: int, kv_type: str = "f16") -> None:
        self.hp, self.step, self.n_threads, self.kv_type = hp, step, n_threads, kv_type
        self.program = Program()
        self._buffers: dict[tuple, int] = {}
        self._operands: dict[tuple, Operand] = {}
        self._tenants: dict[int, tuple] = {}  # buffer address -> which operand is in it
        self._values: list[Rows | Normed | Gated] = []  # keys are ids, unique only while the values live
        self._norm_eps = f32_bits(hp.norm_eps)

    # ---- memory ----

    def _rows(self, role: str, n: int, n_rows: int | None = None) -> Rows:
        stride = 4 * _padded(n, 16)
        return Rows(self._buffer(role, stride * (n_rows or self.step.n_batch)), stride, n)

    def _buffer(self, role: str, n_bytes: int) -> int:
        key = (role, n_bytes)
        if key not in self._buffers:
            self._buffers[key] = self.program.buffer(n_bytes)
        return self._buffers[key]

    def _scratch(self, n_bytes: int) -> tuple[int, int]:
        """Base and size of every thread's scratch."""
        each = _padded(n_bytes, L.ALIGN)
        return self._buffer("scratch", each * self.n_threads), each

    def _array(self, values: np.ndarray) -> int:
        return self.program.keep(values)

    # ---- words ----

    def embed(self, table: Table, scale: float = 1.0) -> Rows:
        """Rows of the token table for this step's tokens, times scale."""
        x = self._rows("x", table.n)
        args = [table.address, table.row_bytes, table.n, self.step.tokens_at, x.address, x.stride, f32_bits(scale)]
        self.program.add([Part(f"{_QUANTS}:embed({table.quant.name})", args, 1, L.N_ROWS)])
        return x

    def rms_norm(self, x: Rows, weight: np.ndarray) -> Normed:
        """x / sqrt(mean(x^2) + eps) * weight"""
        return Normed(x, weight)

    def linear(self, x: Rows | Normed | Gated, weight: Matrix, bias: np.ndarray | None = None) -> Product:
        """x W^T + bias, computed when it is used."""
        assert x.n == weight.n_in, (x.n, weight.n_in)
        return Product(x, weight, bias)

    def gated(self, gate: Rows, up: Rows, activation: str) -> Gated:
        """activation(gate) * up; activation is "silu" or "gelu"."""
        return Gated(gate, up, activation)

    def compute(self, role: str, *products: Product) -> list[Rows]:
        """Compute products side by side, as one op, into columns of one buffer."""
        widths = [_padded(p.weight.n_out, 16) for p in products]
        whole = self._rows(role, sum(widths))
        parts, prologues, first = [], [], 0
        out = []
        for p, width in zip(products, widths, strict=True):
            y = whole.columns(first, p.weight.n_out)
            part, prologue = self._product(p, y)
            parts.append(part)
            prologues.append(prologue)
            out.append(y)
            first += width
        self._add_with(parts, prologues)
        return out

    def add(self, x: Rows, delta: Product | Normed, scale: float = 1.0) -> Rows:
        """x + scale * delta, in place."""
        if isinstance(delta, Normed):
            assert scale == 1.0
            args = self._row_args(delta.x, delta.weight, x.address, x.stride, 0)
            self.program.add([Part(f"{_ROWS}:norm_add", args, 1, L.N_ROWS)])
            return replace(x)
        part, prologue = self._product(delta, x, add=True, scale=scale)
        self._add_with([part], [prologue])
        return replace(x)

    def normed_rows(self, x: Rows, weight: np.ndarray) -> Rows:
        """The RMS norm of whole rows, in place, where something other than a matrix reads it."""
        args = self._row_args(x, weight, x.address, x.stride, 0)
        self.program.add([Part(f"{_ROWS}:norm(f32)", args, 1, L.N_ROWS)])
        return replace(x)

    def rope(self, rope: Rope, factors: np.ndarray | None = None) -> tuple[Rope, int]:
        """A rotation for attention layers; its cosines and sines are made once a step. Give it to `attend`."""
        freqs = frequencies(rope, factors)
        table = self.program.buffer(self.step.n_batch * len(freqs) * 8)
        args = [self._array(freqs), self.step.positions_at, table, len(freqs), f32_bits(rope.mscale)]
        self.program.add([Part(f"{_ROPE}:rope_table", args, 1, L.N_ROWS)])
        return rope, table

    def attend(
        self,
        layer: int,
        q: Rows,
        k: Rows,
        v: Rows,
        *,
        rope: tuple[Rope, int] | None,
        scale: float | None = None,
        q_norm: np.ndarray | None = None,
        k_norm: np.ndarray | None = None,
        window: int | None = None,
        softcap: float = 0.0,
        sinks: np.ndarray | None = None,
    ) -> Rows:
        """Write k and v to the layer's pages and attend to all keys up to each row's position.

        q_norm, k_norm   f32[head_dim] RMS norms of every head before the rotation
        window           keys that a row sees, its own included; None: all up to it
        softcap          scores become softcap * tanh(score / softcap)
        sinks            f32[n_head] logits that take part in the softmax's sum, as a key without a value would
        """
        hp, step = self.hp, self.step
        padded = _padded(hp.head_dim)
        offset = layer * kv_layer_bytes(hp, self.kv_type)
        assert q.stride == k.stride == v.stride
        ready = self._rows("q", hp.n_head * padded)
        factor = (hp.head_dim**-0.5 if scale is None else scale) * 1.4426950408889634
        n_rot, table = (rope[0].n_rot, rope[1]) if rope else (2, 0)
        base, each = self._scratch(padded * 4 + 128)
        write = [q.address, k.address, v.address, q.stride, hp.n_head, hp.n_head_kv, hp.head_dim, n_rot, table]
        write += [0 if w is None else self._array(w) for w in (q_norm, k_norm)]
        write += [self._norm_eps, step.pages_at, step.slots_at, offset, ready.address, f32_bits(factor), base, each]
        self.program.add([Part(f"{_ROPE}:rope_kv({self.kv_type})", write, 1, L.N_ROWS)])
        out = self._rows("attended", hp.n_q)
        base, each = self._scratch(A.scratch_bytes(padded, hp.n_head // hp.n_head_kv))
        partials = self._buffer("partials", A.PLACES * hp.n_head * A.state_bytes(padded))
        reach, logits = window or ALL_KEYS, 0 if sinks is None else self._array(sinks)
        args = [ready.address, hp.n_head, hp.n_head_kv, step.tasks_at, offset, reach, f32_bits(softcap), logits]
        args += [out.address, out.stride, base, each, step.positions_at, hp.head_dim, partials]
        self.program.add([Part(f"{_ATTENTION}:attend({padded},{self.kv_type})", args, hp.n_head_kv, L.N_TASKS)])
        args = [hp.n_head, step.merges_at, step.positions_at, reach, logits, out.address, out.stride, hp.head_dim]
        args += [partials, base, each]
        self.program.add([Part(f"{_ATTENTION}:merge_segments({padded})", args, hp.n_head, L.N_MERGES)])
        return out

    def experts(
        self, x: Normed, router: Matrix, gate: Matrix, up: Matrix, down: Matrix, n_used: int, activation: str
    ) -> Experts:
        """A mixture of experts: softmax over the router's products, the best n_used, weights made to sum to 1."""
        return Experts(x, router, gate, up, down, n_used, activation)

    def add_experts(self, x: Rows, mix: Experts) -> Rows:
        """x + the experts' weighted outputs, in place, in the order of their rank."""
        n_ff, n_pairs = mix.gate.n_out, self.step.n_batch * mix.n_used
        (scores,) = self.compute("router", self.linear(mix.x, mix.router))
        chosen, places = self._buffer("chosen", n_pairs * 8), self._buffer("places", n_pairs * 8)
        shares, n_expert = self._buffer("shares", n_pairs * 4), mix.router.n_out
        pairs = Pairs(n_expert, mix.n_used, chosen, shares, places, self._buffer("starts", (n_expert + 2) * 8))
        self.program.add([pairs.route(scores, self._scratch(4 * _padded(n_expert, 16)))])
        self.program.add([pairs.group(self.step.counters_at)], when=L.MANY_ROWS)

        both = self._rows("expert hidden", 2 * _padded(n_ff, 16), n_pairs)
        hidden = [both.columns(0, n_ff), both.columns(_padded(n_ff, 16), n_ff)]
        alone, grouped, prologues, spread = [], [], [], {}
        for w, y in zip((mix.gate, mix.up), hidden, strict=True):
            form = w.quant.activation
            operand = self._operand(mix.x, form)
            of_pairs = self._pair_rows(f"spread {form}", operand.stride, n_pairs)
            alone.append(pairs.alone(w, operand, y, mix.n_used))
            grouped.append(pairs.grouped(w, of_pairs, y))
            prologues.append(operand.prologue)
            spread[form] = pairs.spread(operand, of_pairs)
        self._add_with(alone, prologues, when=L.FEW_ROWS)
        self.program.add(list(spread.values()), when=L.MANY_ROWS)
        self.program.add(grouped, when=L.MANY_ROWS)

        form = mix.down.quant.activation
        packed = self._pair_rows(f"expert {form}", _form_bytes(form, n_ff), n_pairs)
        args = self._row_args(hidden[0], None, packed.address, packed.stride, 0, hidden[1])
        self.program.add([Part(f"{_ROWS}:gated({mix.activation},{form})", args, mix.n_used, L.N_ROWS)])
        out = self._rows("expert out", mix.down.n_out, n_pairs)
        self.program.add([pairs.alone(mix.down, packed, out, 1)], when=L.FEW_ROWS)
        self.program.add([pairs.grouped(mix.down, packed, out)], when=L.MANY_ROWS)
        self.program.add([pairs.combine(out, x)])
        return replace(x)

    def outputs(self, x: Rows) -> Rows:
        """The rows whose logits are wanted."""
        return Rows(x.address, x.stride, x.n, self.step.outputs_at)

    def logits(self, product: Product, *, scale: float = 1.0, softcap: float = 0.0) -> None:
        """The step's result: scale * product, soft-capped; f32[n_outputs, n_vocab]."""
        y = Rows(self.step.logits_at, self.step.logits_stride, product.weight.n_out)
        part, _ = self._product(product, y, scale=scale)
        self.program.add([part], when=L.ANY_OUTPUT)
        if softcap:
            args = [y.address, y.stride, _padded(y.n, 16), f32_bits(softcap), f32_bits(1.0 / softcap)]
            self.program.add([Part(f"{_ROWS}:cap", args, 1, L.N_OUTPUTS)], when=L.ANY_OUTPUT)

    # ---- recording ----

    def _add_with(self, parts: list[Part], prologues: Sequence[Prologue | None], when: int = L.ALWAYS) -> None:
        """One op for all parts that share a prologue: matrices of mixed formats may want their input in two forms."""
        for prologue in dict.fromkeys(prologues):
            together = [part for part, own in zip(parts, prologues, strict=True) if own == prologue]
            self.program.add(together, prologue, when)

    def _product(self, p: Product, y: Rows, *, add: bool = False, scale: float = 1.0) -> tuple[Part, Prologue | None]:
        w = p.weight
        operand = self._operand(p.x, w.quant.activation)
        bias = 0 if p.bias is None else self._array(_padded_vector(p.bias))
        args = [w.address, operand.address, operand.stride, operand.each, w.n_blocks, w.n_tiles, w.tiles_per_chunk]
        args += [y.address, y.stride, int(add), f32_bits(scale), bias, self.step.counters_at, operand.unit]
        return Part(f"{_QUANTS}:linear({w.quant.name})", args, w.n_chunks), operand.prologue

    def _pair_rows(self, role: str, stride: int, n_pairs: int) -> Operand:
        """Memory for a row of an experts' input for each pair; an expert's rows may begin and end anywhere."""
        return Operand(self._buffer(role, stride * (n_pairs + L.SPARE_ROWS)), stride, 0, L.N_ROWS, None)

    def _operand(self, x: Rows | Normed | Gated, form: str) -> Operand:
        """x in `form`. A symbolic value is prepared once in each form, however many matrices read it."""
        if isinstance(x, Rows) and form == "f32" and not x.index:
            return Operand(x.address, x.stride, 0, L.N_ROWS, None)
        key = (id(x), form)
        operand = self._operands.get(key)
        if operand is None or self._tenants[operand.address] != key:  # another has moved in since
            operand = self._operands[key] = self._prepare(x, form)
            self._tenants[operand.address] = key
            self._values.append(x)
        return operand

    def _prepare(self, x: Rows | Normed | Gated, form: str) -> Operand:
        source = x if isinstance(x, Rows) else x.gate if isinstance(x, Gated) else x.x
        stride = _form_bytes(form, x.n)
        selected = bool(source.index)
        unit, n_rows = (L.N_OUTPUTS, self.step.n_outputs) if selected else (L.N_ROWS, self.step.n_batch)
        each = 0 if selected else L.EACH_ROWS * stride
        role = f"{type(x).__name__} {form}" + (" selected" if selected else "")
        n_rows = max(n_rows, L.EACH_ROWS * self.n_threads) + L.SPARE_ROWS
        where = self._buffer(role, stride * n_rows)
        if isinstance(x, Normed):
            kernel, args = f"{_ROWS}:norm({form})", self._row_args(x.x, x.weight, where, stride, each)
        elif isinstance(x, Gated):
            kernel = f"{_ROWS}:gated({x.activation},{form})"
            args = self._row_args(x.gate, None, where, stride, each, x.up)
        else:
            kernel, args = f"{_ROWS}:convert({form})", self._row_args(x, None, where, stride, each)
        if selected:
            self.program.add([Part(kernel, args, 1, unit)], when=L.ANY_OUTPUT)
            return Operand(where, stride, 0, unit, None)
        self.program.add([Part(kernel, args, 1, unit)], when=L.MANY_ROWS)
        return Operand(where, stride, each, unit, Prologue(kernel, tuple(args)))

    def _row_args(
        self, x: Rows, weight: np.ndarray | None, dst: int, dst_stride: int, each: int, second: Rows | None = None
    ) -> list[int]:
        base, scratch_each = self._scratch(4 * _padded(x.n, 16))
        w = 0 if weight is None else self._array(weight)
        up = 0 if second is None else second.address
        args = [x.address, x.stride, x.n, dst, dst_stride, each, w, self._norm_eps, self.step.counters_at, x.index]
        return [*args, base, scratch_each, up]


def _form_bytes(form: str, n: int) -> int:
    """Bytes of a row of n values in an activation form."""
    if form == "int8":
        return _padded(L.INT8_QUANTS + n + n * L.INT8_OUTLIER, 16)
    sizes = {"q8": (32, L.Q8_BLOCK), "q8k": (256, L.Q8K_BLOCK), "f32": (16, 64)}
    width, size = sizes[form]
    return _padded(-(-n // width) * size, 16)


def _padded_vector(values: np.ndarray) -> np.ndarray:
    """A bias as long as whole tiles."""
    out = aligned(_padded(len(values), 16), np.float32)
    out[: len(values)] = values
    return out
