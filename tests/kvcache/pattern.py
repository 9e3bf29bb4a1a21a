"""Stand-in for a model: the KV of a token is a number that follows from all tokens up to it."""

import ctypes
from collections.abc import Sequence as Ids

from xxhash import xxh3_64_digest

from chenxing.kernels.layout import PAGE
from chenxing.kvcache import Sequence

EACH = 8  # bytes of a token
PAGE_BYTES = PAGE * EACH


def kv(ids: Ids[int], position: int) -> bytes:
    """What a model would compute for the token at this position."""
    return xxh3_64_digest(repr(list(ids[: position + 1])).encode())


def compute(sequence: Sequence, ids: Ids[int]) -> bool:
    """Reserve, write and commit these tokens. -> False if there was no room, and nothing was done."""
    n, new = sequence.n_tokens, [*sequence.ids, *ids]
    if not sequence.reserve(len(new)):
        return False
    for position in range(n, len(new)):
        ctypes.memmove(_place(sequence, position), kv(new, position), EACH)
    sequence.commit(ids)
    return True


def check(sequence: Sequence, ids: Ids[int]) -> None:
    """The sequence has these tokens, and the KV of each is theirs."""
    assert sequence.ids == list(ids)
    for position in range(len(ids)):
        assert ctypes.string_at(_place(sequence, position), EACH) == kv(ids, position), f"position {position}"


def _place(sequence: Sequence, position: int) -> int:
    return int(sequence.table[position // PAGE]) + position % PAGE * EACH
