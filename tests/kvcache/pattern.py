"""Stand-in for a model: the KV of a token is a number that follows from all tokens up to it."""

import ctypes
from collections.abc import Iterator
from collections.abc import Sequence as Ids
from functools import lru_cache

from xxhash import xxh3_64_digest

from chenxing.kernels.layout import PAGE
from chenxing.kvcache import Sequence

EACH = 8  # bytes of a token
PAGE_BYTES = PAGE * EACH


@lru_cache(1 << 16)
def _next(before: bytes, i: int) -> bytes:
    return xxh3_64_digest(before + i.to_bytes(4, "little"))


def kv(ids: Ids[int]) -> bytes:
    """What a model would compute for these tokens, EACH bytes for one."""
    out = [b""]
    for i in ids:
        out.append(_next(out[-1], i))
    return b"".join(out)


def compute(sequence: Sequence, ids: Ids[int]) -> bool:
    """Reserve, write and commit these tokens. -> False if there was no room, and nothing was done."""
    n, new = sequence.n_tokens, [*sequence.ids, *ids]
    if not sequence.reserve(len(new)):
        return False
    values = kv(new)
    for first, last in _runs(n, len(new)):
        ctypes.memmove(_place(sequence, first), values[first * EACH : last * EACH], (last - first) * EACH)
    sequence.commit(ids)
    return True


def check(sequence: Sequence, ids: Ids[int]) -> None:
    """The sequence has these tokens, and the KV of each is theirs."""
    assert sequence.ids == list(ids)
    values = kv(ids)
    for first, last in _runs(0, len(ids)):
        held = ctypes.string_at(_place(sequence, first), (last - first) * EACH)
        assert held == values[first * EACH : last * EACH], f"positions {first} to {last - 1}"


def _runs(first: int, end: int) -> Iterator[tuple[int, int]]:
    """The positions from first to end, page by page: half-open intervals."""
    while first < end:
        last = min(end, (first // PAGE + 1) * PAGE)
        yield first, last
        first = last


def _place(sequence: Sequence, position: int) -> int:
    return int(sequence.table[position // PAGE]) + position % PAGE * EACH
