"""What changes from step to step: the rows of a batch, in the arrays that a recorded program reads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chenxing.kernels import attention_layout as A
from chenxing.kernels import layout as L
from chenxing.kernels.memory import address, aligned


@dataclass(frozen=True)
class Run:
    """Consecutive tokens of one sequence.

    tokens   their ids; the first one's position is `position`
    pages    i64 addresses of the sequence's pages, enough for the last of these tokens
    outputs  which of the tokens want logits, by index in `tokens`
    """

    tokens: Sequence[int]
    position: int
    pages: np.ndarray
    outputs: Sequence[int] = ()


class Step:
    """The batch arrays of one program. At most n_batch rows and n_outputs rows of logits.

    Invariant: between `fill` calls the arrays describe one sound batch; `n_rows` is at least 1 when a program runs.
    """

    def __init__(self, n_batch: int, n_outputs: int, n_vocab: int, group: int) -> None:
        self.n_batch, self.n_outputs = n_batch, n_outputs
        self._task_rows = A.task_rows(group)
        self.counters = aligned(L.STEP_WORDS, np.int64)
        self.counters[L.ONE] = 1
        self._tokens, self._positions, self._pages, self._slots, self._outputs = (
            aligned(n_batch, np.int64) for _ in range(5)
        )
        self._tasks = aligned((n_batch, A.TASK_WORDS), np.int64)
        padded = -(-n_vocab // 16) * 16
        self._logits = aligned((n_outputs, padded), np.float32)
        self._n_vocab = n_vocab
        self._tables: list[np.ndarray] = []
        self.tokens_at, self.positions_at = address(self._tokens), address(self._positions)
        self.pages_at, self.slots_at = address(self._pages), address(self._slots)
        self.outputs_at, self.tasks_at = address(self._outputs), address(self._tasks)
        self.counters_at, self.logits_at = address(self.counters), address(self._logits)
        self.logits_stride = padded * 4

    @staticmethod
    def attention_scratch(padded: int, group: int) -> int:
        """Bytes of scratch that one thread needs for attention."""
        return A.scratch_bytes(padded, group)

    def fill(self, runs: Sequence[Run]) -> None:
        """Lay the rows of these runs out."""
        row = n_outputs = n_tasks = 0
        self._tables = [run.pages for run in runs]
        for run in runs:
            n = len(run.tokens)
            assert n and row + n <= self.n_batch and n_outputs + len(run.outputs) <= self.n_outputs
            assert run.pages.dtype == np.int64 and run.pages.flags.c_contiguous
            positions = np.arange(run.position, run.position + n)
            self._tokens[row : row + n] = run.tokens
            self._positions[row : row + n] = positions
            self._pages[row : row + n] = run.pages[positions // L.PAGE]
            self._slots[row : row + n] = positions % L.PAGE
            for first in range(0, n, self._task_rows):
                rows = min(self._task_rows, n - first)
                self._tasks[n_tasks] = row + first, rows, run.pages.ctypes.data
                n_tasks += 1
            for i in run.outputs:
                self._outputs[n_outputs] = row + i
                n_outputs += 1
            row += n
        self.counters[L.N_ROWS], self.counters[L.N_OUTPUTS], self.counters[L.N_TASKS] = row, n_outputs, n_tasks

    @property
    def logits(self) -> np.ndarray:
        """f32[n_outputs of the last step, n_vocab], in the order of the runs; overwritten by the next step."""
        return self._logits[: self.counters[L.N_OUTPUTS], : self._n_vocab]
