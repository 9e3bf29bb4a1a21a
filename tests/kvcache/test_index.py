"""What was packed is read back; what is damaged ends the index."""

import numpy as np
import pytest

from chenxing.kvcache.index import (
    Add,
    Contents,
    Drop,
    Header,
    Tally,
    Use,
    pack,
    pack_header,
    scan,
    unpack_header,
)
from chenxing.kvcache.radix import encode

HEADER = Header({"name": "模型", "rope": {"base": 1e4}}, 4096, bytes(range(16)))
RECORDS = [
    Add(1, 0, 0, bytes(16), encode(range(32))),
    Add(2, 1, 1, bytes(range(16)), encode([7])),
    Use(2, 33),
    Drop(2),
    Tally(3, 4),
]


def test_round_trip():
    head = pack_header(HEADER)
    data = head + b"".join(map(pack, RECORDS))
    found = unpack_header(data)
    assert found == (HEADER, len(head))
    assert [record for record, _ in scan(data, len(head))] == RECORDS
    assert list(scan(data, len(head)))[-1][1] == len(data)


@pytest.mark.parametrize("n_lost", [1, 8, 20])
def test_a_torn_tail_is_dropped(n_lost):
    data = b"".join(map(pack, RECORDS))
    found = list(scan(data[: len(data) - n_lost]))
    assert [record for record, _ in found] == RECORDS[: len(found)] and len(found) == 4


def test_any_flipped_bit_is_seen():
    head, data = pack_header(HEADER), b"".join(map(pack, RECORDS))
    for at in range(len(head)):
        assert unpack_header(_flipped(head, at)) is None
    ends = np.cumsum([len(pack(record)) for record in RECORDS])
    for at in range(len(data)):
        found = [record for record, _ in scan(_flipped(data, at))]
        assert found == RECORDS[: int(np.searchsorted(ends, at, side="right"))]


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]


@pytest.mark.parametrize(
    "record",
    [Add(1, 1, 0, bytes(16), encode([1])), Add(1, 0, 0, bytes(16), b""), Add(1, 0, 0, bytes(16), encode(range(33)))],
)
def test_impossible_records_end_the_index(record):
    assert list(scan(pack(record))) == []


def test_contents_and_their_compaction():
    contents = Contents()
    for record in [*RECORDS[:3], Add(3, 1, 1, bytes(16), encode([9])), Use(1, 5)]:
        contents.apply(record)
    assert list(contents.adds) == [3, 1]  # 3 took the slot of 2; 1 was used last
    assert (contents.n_requests, contents.n_tokens) == (2, 38)
    again = Contents()
    for record in contents.compact():
        again.apply(record)
    assert list(again.adds.items()) == list(contents.adds.items()) and again.slots == contents.slots
    assert (again.n_requests, again.n_tokens) == (2, 38)
