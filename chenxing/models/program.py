"""A recorded forward pass: the flat table of ops that the executor walks, and the memory it works in.

Recording is symbolic: ops.py names kernels by reference and collects them here; `finish` asks the library for their
addresses and lays the table down. Nothing is allocated while a step runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chenxing.kernels import layout as L
from chenxing.kernels.library import KernelLibrary, Progress
from chenxing.kernels.memory import address, aligned
from chenxing.kernels.team import Team


def f32_bits(value: float) -> int:
    """An f32 in the low half of an int64 argument slot."""
    return int(np.float32(value).view(np.int32))


@dataclass(frozen=True)
class Part:
    """A kernel with its arguments; `chunks` for each `divisor` of the step's counter `unit` (0: once)."""

    kernel: str
    args: Sequence[int]
    chunks: int
    unit: int = L.ONE
    divisor: int = 1


@dataclass(frozen=True)
class Prologue:
    """A kernel that every thread runs for all rows before an op, in steps of few rows."""

    kernel: str
    args: tuple[int, ...]


class Program:
    """Ops in the order in which they run. Owns every buffer and argument array that its kernels point to."""

    def __init__(self) -> None:
        self._ops: list[tuple[list[Part], Prologue | None, int]] = []
        self._keep: list[np.ndarray] = []
        self._table = self._plan = aligned(8, np.int64)
        self._addresses = (0, 0, 0)
        self._library: KernelLibrary | None = None  # it owns the code that the table points to

    def buffer(self, n_bytes: int) -> int:
        """Address of zeroed memory that lives as long as the program."""
        array = aligned(n_bytes)
        self._keep.append(array)
        return address(array)

    def keep(self, array: np.ndarray) -> int:
        """Address of an array, which is kept."""
        self._keep.append(array)
        return address(array)

    def add(self, parts: list[Part], prologue: Prologue | None = None, when: int = L.ALWAYS) -> None:
        self._ops.append((parts, prologue, when))

    @property
    def kernels(self) -> set[str]:
        """References of all kernels that the program calls."""
        found = {part.kernel for parts, _, _ in self._ops for part in parts}
        return found | {p.kernel for _, p, _ in self._ops if p}

    def finish(self, library: KernelLibrary, on_progress: Progress | None = None) -> None:
        """Get the kernels and lay the table down. The program can run afterwards."""
        library.require(self.kernels, on_progress)
        self._library = library
        where = library.addresses
        words = _Words(sum(_words_of(parts, prologue) for parts, prologue, _ in self._ops))
        rows = []
        for parts, prologue, when in self._ops:
            table: list[int] = []
            for part in parts:
                table += [where[part.kernel], words.put(part.args), part.chunks, part.unit, part.divisor, 0]
            before = (where[prologue.kernel], words.put(prologue.args)) if prologue else (0, 0)
            rows.append((words.put(table), len(parts), *before, when, 0))
        self._keep.append(words.array)
        self._table = aligned((len(rows), L.OP_BYTES // 8), np.int64)
        self._table[:] = rows
        self._plan = aligned(len(rows), np.int64)
        self._addresses = address(self._table), len(rows), address(self._plan)

    def run(self, team: Team, step: np.ndarray) -> None:
        """One step with these counters, i64[STEP_WORDS]."""
        table, n_ops, plan = self._addresses
        team.run(table, n_ops, address(step), plan)


class _Words:
    """One array for all argument lists and part tables, each starting on a cache line."""

    def __init__(self, n: int) -> None:
        self.array = aligned(n, np.int64)
        self._base, self._used = address(self.array), 0

    def put(self, values: Sequence[int]) -> int:
        """Address of the values' copy."""
        first = self._used
        self.array[first : first + len(values)] = values
        self._used += _lines(len(values))
        return self._base + 8 * first


def _lines(n: int) -> int:
    """n words rounded up to whole cache lines."""
    return -(-n // 8) * 8


def _words_of(parts: list[Part], prologue: Prologue | None) -> int:
    n = _lines(len(parts) * L.PART_BYTES // 8) + sum(_lines(len(part.args)) for part in parts)
    return n + (_lines(len(prologue.args)) if prologue else 0)
