"""Sizes of attention's tasks and scratch, shared by the kernel and its callers; no numba here."""

from chenxing.kernels.layout import SEGMENT

TASK_WORDS = 3  # first row, number of rows (consecutive positions of one sequence), address of its i64 page addresses
MAX_TILE = 8  # query rows that share a load of K or V, at most


def task_rows(group: int) -> int:
    """Rows of the batch that one attention task takes, for a GQA group of this size."""
    return max(1, 64 // group)


def scratch_bytes(padded: int, group: int) -> int:
    """Scratch of one thread: state of the task's query rows, a tile's partial result, scores, positions and queries."""
    rows = task_rows(group) * group
    state = (rows + MAX_TILE) * (padded + 16) * 4
    return state + MAX_TILE * (SEGMENT + 16) * 4 + rows * 8 + MAX_TILE * padded * 4 + 64
