"""Rows of a batch in the arrays of a program, and attention cut into chunks that keep all threads busy."""

from collections.abc import Sequence

import numpy as np
import pytest

from chenxing.kernels import attention_layout as A
from chenxing.kernels import layout as L
from chenxing.models.step import Run, Step

N_BATCH = 64


def make(n_threads: int = 4, n_head: int = 4, n_head_kv: int = 1) -> Step:
    return Step(N_BATCH, 8, 100, n_head, n_head_kv, n_threads)


def run(n: int, position: int, outputs: Sequence[int] = ()) -> Run:
    """Tokens 7, 8, ... whose sequence has its page p at address 1000 p."""
    return Run(range(7, 7 + n), position, 1000 * np.arange(position // L.PAGE + n // L.PAGE + 2), outputs)


def tasks(step: Step) -> list[tuple[int, ...]]:
    """(first row, rows, segment, place); all of a row's segments are segment and place 0."""
    table = step._tasks.reshape(-1, A.TASK_WORDS)[: step.counters[L.N_TASKS]]
    return [(int(t[0]), int(t[1]), int(t[3]), int(t[4])) for t in table]


def merges(step: Step) -> list[tuple[int, ...]]:
    """(row, first place, places between segments)"""
    return [tuple(m) for m in step._merges.reshape(-1, A.MERGE_WORDS)[: step.counters[L.N_MERGES]].tolist()]


def test_rows_of_short_and_long_runs() -> None:
    step = make()
    step.fill([run(3, 30, [0, 2]), run(1, 65, [0])])
    assert step.counters[[L.N_ROWS, L.N_OUTPUTS, L.N_TASKS, L.N_MERGES]].tolist() == [4, 3, 2, 0]
    assert step._tokens[:4].tolist() == [7, 8, 9, 7]
    assert step._positions[:4].tolist() == [30, 31, 32, 65]
    assert step._pages[:4].tolist() == [0, 0, 1000, 2000]
    assert step._slots[:4].tolist() == [30, 31, 0, 1]
    assert step._outputs[:3].tolist() == [0, 2, 3]
    assert tasks(step) == [(0, 3, 0, 0), (3, 1, 0, 0)]
    assert step.logits.shape == (3, 100)


def test_one_deep_sequence_is_cut_into_segments() -> None:
    step = make()
    step.fill([run(2, 3 * L.SEGMENT - 1)])
    assert tasks(step) == [(0, 2, 0, 1), (0, 2, 1, 3), (0, 2, 2, 5), (0, 2, 3, 7)]
    assert merges(step) == [(0, 0, 2), (1, 1, 2)]


@pytest.mark.parametrize(
    ("step", "runs"),
    [
        (make(n_threads=1), [run(1, 5000)]),
        (make(), [run(1, L.SEGMENT - 1)]),
        (make(n_head=16, n_head_kv=16), [run(1, 5000)]),
        (make(), [run(1, 5000) for _ in range(16)]),
    ],
    ids=["one thread", "one segment", "many heads", "many sequences"],
)
def test_what_is_not_cut(step: Step, runs: list[Run]) -> None:
    step.fill(runs)
    assert tasks(step) == [(i, 1, 0, 0) for i in range(len(runs))]
    assert merges(step) == []


def test_a_sequence_that_is_longer_than_the_others_is_cut() -> None:
    step = make()
    step.fill([*(run(1, 600) for _ in range(15)), run(1, 30000)])
    assert tasks(step)[:15] == [(i, 1, 0, 0) for i in range(15)]
    assert [t[2] for t in tasks(step)[15:]] == list(range(30000 // L.SEGMENT + 1))
    assert merges(step) == [(15, 0, 1)]


def test_places_are_apart_and_end() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        step = make(n_threads=16)
        sizes, positions = rng.integers(1, 20, 3).tolist(), rng.integers(0, 200000, 3).tolist()
        step.fill([run(n, position) for n, position in zip(sizes, positions, strict=True)])
        taken = [place - 1 + i for _, rows, _, place in tasks(step) if place for i in range(rows)]
        assert len(set(taken)) == len(taken) and all(0 <= place < A.PLACES for place in taken)
        found = [
            first + segment * every for row, first, every in merges(step)
            for segment in range(int(step._positions[row]) // L.SEGMENT + 1)
        ]  # fmt: skip
        assert set(found) <= set(taken)
