"""Stand-in for a model: the KV of a token is a number that follows from all tokens up to it."""

import ctypes
from collections.abc import Sequence as Ids

from xxhash import xxh3_64_digest

from chenxing.kernels.layout import PAGE
from chenxing.kvcache import Sequence

EACH = 8  # bytes of a token
PAGE_BYTES = PAGE * EACH


def kv(ids: Ids[int]) -> list[bytes]:
    """What a model would compute for each of these tokens."""
    out = [b""]
    for i in ids:
        out.append(xxh3_64_digest(out[-1] + i.to_bytes(4, "little")))
    return out[1:]


def compute(sequence: Sequence, ids: Ids[int]) -> bool:
    """Reserve, write and commit these tokens. -> False if there was no room, and nothing was done."""
    n, new = sequence.n_tokens, [*sequence.ids, *ids]
    if not sequence.reserve(len(new)):
        return False
    for position, value in list(enumerate(kv(new)))[n:]:
        ctypes.memmove(_place(sequence, position), value, EACH)
    sequence.commit(ids)
    return True


def check(sequence: Sequence, ids: Ids[int]) -> None:
    """The sequence has these tokens, and the KV of each is theirs."""
    assert sequence.ids == list(ids)
    for position, value in enumerate(kv(ids)):
        assert ctypes.string_at(_place(sequence, position), EACH) == value, f"position {position}"


def _place(sequence: Sequence, position: int) -> int:
    return int(sequence.table[position // PAGE]) + position % PAGE * EACH
