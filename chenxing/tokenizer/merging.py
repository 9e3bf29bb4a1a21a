"""Merging symbols pairwise, best pair first: the heart of BPE and of SentencePiece's BPE.

The Hugging Face tokenizers library merges faster, but cannot be used here. Its BPE takes a vocabulary only as JSON or
Python objects: for the 128,256 tokens and 280,147 merges of Llama 3 that was 1.5 s of CPU time at every start, in the
same minute in which reading the tables of tables.py took 0.01 s. It has no scores either, and knows no symbols that
are no tokens, which llama.cpp spells out in bytes.
"""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import pairwise

NO_PAIR = 1 << 62
_NO_RANK = NO_PAIR >> 32
_MAX_PAIRS = 1 << 19
_SHORT = 48  # up to so many symbols, looking through a list is faster than a heap


def pack(rank: int, merged: int) -> int:
    """What `find` returns: the rank of a pair, the lowest is merged first, and the symbol that it becomes."""
    return rank << 32 | merged


class Merger:
    """Merges lists of symbols. Of pairs of one rank the leftmost is merged first.

    find  (left, right) -> pack(rank, merged) or NO_PAIR. Asked once for each pair; answers are kept
    """

    def __init__(self, find: Callable[[int, int], int]) -> None:
        self._find = find
        self._pairs: dict[int, int] = {}

    def merge(self, symbols: list[int]) -> list[int]:
        """The symbols that remain. Negative ones are never merged. O(n log n)."""
        if len(symbols) < 2:
            return symbols
        return self._merge_short(symbols) if len(symbols) <= _SHORT else self._merge_long(symbols)

    def _ask(self, left: int, right: int) -> int:
        if len(self._pairs) >= _MAX_PAIRS:
            self._pairs.clear()
        found = self._pairs[left << 32 | right] = NO_PAIR if left < 0 or right < 0 else self._find(left, right)
        return found

    def _ranks(self, symbols: list[int]) -> list[int]:
        """Of each symbol and its right neighbour."""
        known, ask = self._pairs.get, self._ask
        return [(known(left << 32 | right) or ask(left, right)) >> 32 for left, right in pairwise(symbols)]

    def _merge_short(self, symbols: list[int]) -> list[int]:
        known, ask = self._pairs.get, self._ask
        ids, ranks = symbols.copy(), self._ranks(symbols)
        while ranks:
            best = min(ranks)
            if best == _NO_RANK:
                break
            i = ranks.index(best)
            left, right = ids[i], ids[i + 1]
            merged = ids[i] = (known(left << 32 | right) or ask(left, right)) & 0xFFFFFFFF
            del ids[i + 1], ranks[i]
            if i:
                left = ids[i - 1]
                ranks[i - 1] = (known(left << 32 | merged) or ask(left, merged)) >> 32
            if i < len(ranks):
                right = ids[i + 1]
                ranks[i] = (known(merged << 32 | right) or ask(merged, right)) >> 32
        return ids

    def _merge_long(self, symbols: list[int]) -> list[int]:
        """A heap of (rank, left place) over a linked list. An entry whose rank is no longer its pair's is stale."""
        known, ask = self._pairs.get, self._ask
        n = len(symbols)
        ids, ranks = symbols.copy(), [*self._ranks(symbols), _NO_RANK]
        before, after = list(range(-1, n - 1)), list(range(1, n + 1))
        heap = [rank << 32 | i for i, rank in enumerate(ranks) if rank != _NO_RANK]
        heapify(heap)
        while heap:
            top = heappop(heap)
            i = top & 0xFFFFFFFF
            if ranks[i] != top >> 32:
                continue
            left, j = ids[i], after[i]
            right, following = ids[j], after[j]
            merged = ids[i] = (known(left << 32 | right) or ask(left, right)) & 0xFFFFFFFF
            ranks[j] = rank = _NO_RANK
            after[i] = following
            if following < n:
                before[following] = i
                right = ids[following]
                rank = (known(merged << 32 | right) or ask(merged, right)) >> 32
                if rank != _NO_RANK:
                    heappush(heap, rank << 32 | i)
            ranks[i] = rank
            previous = before[i]
            if previous >= 0:
                left = ids[previous]
                rank = ranks[previous] = (known(left << 32 | merged) or ask(left, merged)) >> 32
                if rank != _NO_RANK:
                    heappush(heap, rank << 32 | previous)
        kept, i = [], 0
        while i < n:
            kept.append(ids[i])
            i = after[i]
        return kept
