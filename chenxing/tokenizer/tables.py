"""Look-up tables over a vocabulary: flat arrays that are read from a file instead of dictionaries that are built.

Both are hash tables in compressed rows: the entries of bucket b are entries[starts[b] : starts[b + 1]]. Building them
is vectorised, reading costs no Python object until something is looked up.
"""

from collections.abc import Callable, Sequence
from zlib import crc32

import numpy as np

from chenxing.tokenizer.merging import NO_PAIR, pack

_LEFT, _RIGHT = 0x9E3779B1, 0x85EBCA6B  # odd, so that the low bits of both symbols reach the low bits of the hash


def _rows(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(u32[n] order of entries by bucket, u32[n_buckets + 1] starts) for hashes u64[n]."""
    n_buckets = 1 << max(4, (len(hashes) - 1).bit_length())
    buckets = (hashes & np.uint64(n_buckets - 1)).astype(np.int64)
    starts = np.zeros(n_buckets + 1, np.uint32)
    np.cumsum(np.bincount(buckets, minlength=n_buckets), out=starts[1:])
    return np.argsort(buckets, kind="stable").astype(np.uint32), starts


def build_text_table(texts: Sequence[bytes]) -> dict[str, np.ndarray]:
    """Arrays for TextTable: the number of each text by its bytes."""
    hashes = np.fromiter(map(crc32, texts), np.uint64, len(texts))
    order, starts = _rows(hashes)
    return {"text.ids": order, "text.starts": starts}


class TextTable:
    """The number of a text. text_of: number -> text."""

    def __init__(self, arrays: dict[str, np.ndarray], text_of: Callable[[int], bytes]) -> None:
        self._starts, self._ids = arrays["text.starts"].data, arrays["text.ids"].data
        self._mask = len(self._starts) - 2
        self._text_of = text_of

    def find(self, text: bytes) -> int | None:
        bucket = crc32(text) & self._mask
        for place in range(self._starts[bucket], self._starts[bucket + 1]):
            number = self._ids[place]
            if self._text_of(number) == text:
                return number
        return None


def build_pair_table(pairs: np.ndarray) -> dict[str, np.ndarray]:
    """Arrays for PairTable from [n, 4] of left, right, rank, merged, no two with the same left and right."""
    wide = pairs.astype(np.uint64)
    order, starts = _rows(wide[:, 0] * np.uint64(_LEFT) + wide[:, 1] * np.uint64(_RIGHT))
    return {"pair.entries": pairs[order].astype(np.uint32).reshape(-1), "pair.starts": starts}


class PairTable:
    """The rank of a pair of symbols and what it becomes."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self._starts, self._entries = arrays["pair.starts"].data, arrays["pair.entries"].data
        self._mask = len(self._starts) - 2

    def find(self, left: int, right: int) -> int:
        """pack(rank, merged) or NO_PAIR."""
        bucket, entries = left * _LEFT + right * _RIGHT & self._mask, self._entries
        for i in range(4 * self._starts[bucket], 4 * self._starts[bucket + 1], 4):
            if entries[i] == left and entries[i + 1] == right:
                return pack(entries[i + 2], entries[i + 3])
        return NO_PAIR
