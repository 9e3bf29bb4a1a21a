"""Sizes that the attention kernels and their callers share: KV pages, tasks, scratch; no numba here.

A page of one layer is K, then V, of every kv head. Both are made of strips of 32 dims by 32 tokens, head_dim being
padded to a multiple of 32 with zeros:
    K  [kv head][strip][header][32 dims][32 tokens]    lanes are tokens
    V  [kv head][strip][header][32 tokens][32 dims]    lanes are dims
so neither product needs a horizontal sum. The header holds one f16 scale a token for q8_0, and is nothing else.
"""

from dataclasses import dataclass

from chenxing.kernels.layout import PAGE, SEGMENT

STRIP = 32  # dims


@dataclass(frozen=True)
class KVType:
    """How keys and values are kept: bytes of one element, and of a strip's header."""

    name: str
    element_bytes: int
    header_bytes: int = 0

    @property
    def line_bytes(self) -> int:
        """32 elements."""
        return STRIP * self.element_bytes

    @property
    def strip_bytes(self) -> int:
        return self.header_bytes + PAGE * self.line_bytes

    def head_bytes(self, padded: int) -> int:
        """K or V of one head in a page."""
        return padded // STRIP * self.strip_bytes


KV_TYPES = {t.name: t for t in (KVType("f16", 2), KVType("bf16", 2), KVType("f32", 4), KVType("q8_0", 1, PAGE * 2))}

# a task: first row, number of rows (consecutive positions of one sequence), address of its i64 page addresses, and
# for a task of one segment alone: its index and 1 + the place of the first row's partial result; 0, 0 for all of them
TASK_ROW, TASK_N, TASK_PAGES, TASK_SEGMENT, TASK_PLACE = range(0, 40, 8)
TASK_WORDS = 5
# a row whose segments are to be merged: the row, the place of its first segment's result, places between segments
MERGE_ROW, MERGE_PLACE, MERGE_EVERY = range(0, 24, 8)
MERGE_WORDS = 3
PLACES = 2048  # partial results of one row and one segment, all heads, at most in a step
MAX_TILE = 8  # query rows that share a load of K or V, at most


def task_rows(group: int) -> int:
    """Rows of the batch that one attention task takes, for a GQA group of this size."""
    return max(1, 64 // group)


def state_bytes(padded: int) -> int:
    """A row's state or partial result for one head: f32 maximum, sum, 14 unused, padded sums of values."""
    return (padded + 16) * 4


def scratch_bytes(padded: int, group: int) -> int:
    """Scratch of one thread: state of the task's query rows, a tile's partial result, scores, positions and queries."""
    rows = task_rows(group) * group
    state = (rows + MAX_TILE) * state_bytes(padded)
    return state + MAX_TILE * (SEGMENT + 16) * 4 + rows * 8 + MAX_TILE * padded * 4 + 64
