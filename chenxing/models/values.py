"""What the words of ops.py pass around: rows in memory, and what is not computed until a matrix asks for it."""

from dataclasses import dataclass

import numpy as np

from chenxing.models.program import Prologue
from chenxing.models.weights import Matrix


@dataclass(frozen=True)
class Rows:
    """f32 rows in memory: `n` columns at `address`, `stride` bytes apart. index: i64 row numbers that are meant."""

    address: int
    stride: int
    n: int
    index: int = 0

    def columns(self, first: int, n: int) -> "Rows":
        return Rows(self.address + 4 * first, self.stride, n, self.index)


@dataclass(frozen=True)
class Normed:
    """The RMS norm of rows."""

    x: Rows
    weight: np.ndarray

    @property
    def n(self) -> int:
        return self.x.n


@dataclass(frozen=True)
class Gated:
    """activation(gate) * up."""

    gate: Rows
    up: Rows
    activation: str

    @property
    def n(self) -> int:
        return self.gate.n


@dataclass(frozen=True)
class Product:
    """A matrix times rows, not yet computed."""

    x: "Rows | Normed | Gated"
    weight: Matrix
    bias: np.ndarray | None = None


@dataclass(frozen=True)
class Operand:
    """A matrix's input in the form that its kernel reads; `each` is one thread's share in small steps."""

    address: int
    stride: int
    each: int
    unit: int
    prologue: Prologue | None


@dataclass(frozen=True)
class Experts:
    """A mixture of experts over normed rows, not yet computed."""

    x: Normed
    router: Matrix
    gate: Matrix
    up: Matrix
    down: Matrix
    n_used: int
    activation: str
