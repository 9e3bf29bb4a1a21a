"""What changes from step to step: the rows of a batch, in the arrays that a recorded program reads.

Filling them is on the path of every generated token: single words are written through memoryviews, which cost a third
of a numpy assignment, and rows of longer runs by whole arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chenxing.kernels import attention_layout as A
from chenxing.kernels import layout as L
from chenxing.kernels.memory import address, aligned

SHARES = 4  # a chunk of attention is at most a thread's share of the work, divided by this, if it can be cut


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

    n_head, n_head_kv, n_threads   decide how attention is cut into chunks, never what it computes

    Invariant: between `fill` calls the arrays describe one sound batch; `n_rows` is at least 1 when a program runs.
    """

    def __init__(
        self, n_batch: int, n_outputs: int, n_vocab: int, n_head: int = 1, n_head_kv: int = 1, n_threads: int = 1
    ) -> None:
        self.n_batch, self.n_outputs = n_batch, n_outputs
        self._task_rows = A.task_rows(n_head // n_head_kv)
        self._n_head_kv, self._n_threads = n_head_kv, n_threads
        self.counters = aligned(L.STEP_WORDS, np.int64)
        self.counters[L.ONE] = 1
        self._tokens, self._positions, self._pages, self._slots, self._outputs = (
            aligned(n_batch, np.int64) for _ in range(5)
        )
        self._tasks = aligned((n_batch + A.PLACES) * A.TASK_WORDS, np.int64)  # whole ones, and segments of others
        self._merges = aligned(n_batch * A.MERGE_WORDS, np.int64)
        padded = -(-n_vocab // 16) * 16
        self._logits = aligned((n_outputs, padded), np.float32)
        self._n_vocab = n_vocab
        self._tables: list[np.ndarray] = []
        self.tokens_at, self.positions_at = address(self._tokens), address(self._positions)
        self.pages_at, self.slots_at = address(self._pages), address(self._slots)
        self.outputs_at = address(self._outputs)
        self.tasks_at, self.merges_at = address(self._tasks), address(self._merges)
        self.counters_at, self.logits_at = address(self.counters), address(self._logits)
        self.logits_stride = padded * 4
        self._words = _Views(self._tokens.data, self._positions.data, self._pages.data, self._slots.data)
        self._task_words, self._merge_words = self._tasks.data, self._merges.data

    def fill(self, runs: Sequence[Run]) -> None:
        """Lay the rows of these runs out."""
        row = n_outputs = 0
        self._tables = [run.pages for run in runs]
        tasks = []  # (first row, rows, address of the page table, segments)
        for run in runs:
            n, position = len(run.tokens), run.position
            assert n and row + n <= self.n_batch and n_outputs + len(run.outputs) <= self.n_outputs
            assert run.pages.dtype == np.int64 and run.pages.flags.c_contiguous
            if n == 1:
                self._words.put(row, run.tokens[0], position, int(run.pages[position // L.PAGE]))
            else:
                self._put_rows(row, run)
            table = address(run.pages)
            for first in range(0, n, self._task_rows):
                rows = min(self._task_rows, n - first)
                tasks.append((row + first, rows, table, (position + first + rows - 1) // L.SEGMENT + 1))
            for i in run.outputs:
                self._outputs[n_outputs] = row + i
                n_outputs += 1
            row += n
        n_tasks, n_merges = self._lay_tasks(tasks)
        self.counters[L.N_ROWS : L.N_MERGES + 1] = row, n_outputs, n_tasks, n_merges

    def _put_rows(self, row: int, run: Run) -> None:
        rows = slice(row, row + len(run.tokens))
        positions = np.arange(run.position, run.position + len(run.tokens))
        self._tokens[rows] = run.tokens
        self._positions[rows] = positions
        self._pages[rows] = run.pages[positions // L.PAGE]
        self._slots[rows] = positions % L.PAGE

    def _lay_tasks(self, tasks: list[tuple[int, int, int, int]]) -> tuple[int, int]:
        """Cut the tasks that would keep a thread busy when the others have finished. -> counts of tasks and merges."""
        share = self._n_head_kv * sum(rows * segments for _, rows, _, segments in tasks) // (SHARES * self._n_threads)
        words, at, n_merges, place = self._task_words, 0, 0, 0
        for row, rows, table, segments in tasks:
            needed = rows * segments
            cut = self._n_threads > 1 and segments > 1 and needed > share and place + needed <= A.PLACES
            for segment in range(segments if cut else 1):
                words[at], words[at + 1], words[at + 2] = row, rows, table
                words[at + 3], words[at + 4] = segment, 1 + place + segment * rows if cut else 0
                at += A.TASK_WORDS
            if cut:
                for i in range(rows):
                    merge = n_merges * A.MERGE_WORDS
                    self._merge_words[merge], self._merge_words[merge + 1] = row + i, place + i
                    self._merge_words[merge + 2] = rows
                    n_merges += 1
                place += needed
        return at // A.TASK_WORDS, n_merges

    @property
    def logits(self) -> np.ndarray:
        """f32[n_outputs of the last step, n_vocab], in the order of the runs; overwritten by the next step."""
        return self._logits[: self.counters[L.N_OUTPUTS], : self._n_vocab]


@dataclass(frozen=True)
class _Views:
    """The arrays of a row, word by word."""

    tokens: memoryview
    positions: memoryview
    pages: memoryview
    slots: memoryview

    def put(self, row: int, token: int, position: int, page: int) -> None:
        self.tokens[row] = token
        self.positions[row] = position
        self.pages[row] = page
        self.slots[row] = position % L.PAGE
