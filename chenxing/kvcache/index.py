"""The index of a store: what its file says, and what follows from it. Format: docs/formats/kv-store.md.

Everything here is bytes in, values out: no file is touched. A record that is cut short, damaged or impossible ends the
index: nothing behind it is believed.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from xxhash import xxh3_64_intdigest

from chenxing.kernels.layout import PAGE
from chenxing.kvcache.radix import ID_BYTES

MAGIC = b"CXKVIDX\x01"
_HEAD = struct.Struct("<8sIQ16s")  # magic, bytes of the text, bytes of a page, generation
_RECORD = struct.Struct("<BH")  # kind, bytes of the body
_SUM = struct.Struct("<Q")
_ADD = struct.Struct("<QQQ16s")
_DROP = struct.Struct("<Q")
_USE = struct.Struct("<QQ")
_KIND_ADD, _KIND_DROP, _KIND_USE, _KIND_TALLY = 1, 2, 3, 4
MAX_TEXT = 1 << 16


@dataclass(frozen=True, slots=True)
class Add:
    """A page is sealed. id grows from record to record, so a parent's is less than its children's; parent 0: the root.

    slot    the page's data begins at slot * page_bytes of the data file
    digest  xxh3-128 of these page_bytes
    key     the page's own tokens, big-endian u32, 1 to PAGE of them
    """

    id: int
    parent: int
    slot: int
    digest: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class Drop:
    """The page of this id is no more, and its slot may be written again."""

    id: int


@dataclass(frozen=True, slots=True)
class Use:
    """A request reused n_tokens, up to the page of this id."""

    id: int
    n_tokens: int


@dataclass(frozen=True, slots=True)
class Tally:
    """Requests and tokens of the uses that a compaction removed."""

    n_requests: int
    n_tokens: int


Record = Add | Drop | Use | Tally


@dataclass(frozen=True)
class Header:
    fingerprint: dict[str, Any]
    page_bytes: int
    generation: bytes  # 16 random bytes, new for every file that takes the index's name


def canonical(fingerprint: dict[str, Any]) -> str:
    """The one JSON text of a fingerprint."""
    return json.dumps(fingerprint, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def identity(fingerprint: dict[str, Any]) -> str:
    """What two fingerprints under which KV has the same bits have in common: all but "name", which is for people."""
    return canonical({key: value for key, value in fingerprint.items() if key != "name"})


def pack_header(header: Header) -> bytes:
    text = canonical(header.fingerprint).encode()
    assert len(text) <= MAX_TEXT
    head = _HEAD.pack(MAGIC, len(text), header.page_bytes, header.generation) + text
    return head + _SUM.pack(xxh3_64_intdigest(head))


def unpack_header(data: bytes) -> tuple[Header, int] | None:
    """The header and where the records begin, or None if it is not a sound one."""
    if len(data) < _HEAD.size:
        return None
    magic, n_text, page_bytes, generation = _HEAD.unpack_from(data)
    end = _HEAD.size + n_text
    if magic != MAGIC or n_text > MAX_TEXT or len(data) < end + _SUM.size or page_bytes == 0:
        return None
    if _SUM.unpack_from(data, end)[0] != xxh3_64_intdigest(data[:end]):
        return None
    return Header(json.loads(data[_HEAD.size : end]), page_bytes, generation), end + _SUM.size


def pack(record: Record) -> bytes:
    match record:
        case Add():
            kind, body = _KIND_ADD, _ADD.pack(record.id, record.parent, record.slot, record.digest) + record.key
        case Drop():
            kind, body = _KIND_DROP, _DROP.pack(record.id)
        case Use():
            kind, body = _KIND_USE, _USE.pack(record.id, record.n_tokens)
        case Tally():
            kind, body = _KIND_TALLY, _USE.pack(record.n_requests, record.n_tokens)
    head = _RECORD.pack(kind, len(body)) + body
    return head + _SUM.pack(xxh3_64_intdigest(head))


def scan(data: bytes, at: int = 0) -> Iterator[tuple[Record, int]]:
    """The sound records from `at` on, each with the place behind it; ends before the first that is not sound."""
    while at + _RECORD.size <= len(data):
        kind, n_body = _RECORD.unpack_from(data, at)
        end = at + _RECORD.size + n_body
        if end + _SUM.size > len(data) or _SUM.unpack_from(data, end)[0] != xxh3_64_intdigest(data[at:end]):
            return
        record = _record(kind, data[at + _RECORD.size : end])
        if record is None:
            return
        at = end + _SUM.size
        yield record, at


def _record(kind: int, body: bytes) -> Record | None:
    if kind == _KIND_ADD and len(body) > _ADD.size:
        id_, parent, slot, digest = _ADD.unpack_from(body)
        key = body[_ADD.size :]
        if parent < id_ and len(key) % ID_BYTES == 0 and len(key) <= PAGE * ID_BYTES:
            return Add(id_, parent, slot, digest, key)
    elif kind == _KIND_DROP and len(body) == _DROP.size:
        return Drop(*_DROP.unpack(body))
    elif kind == _KIND_USE and len(body) == _USE.size:
        return Use(*_USE.unpack(body))
    elif kind == _KIND_TALLY and len(body) == _USE.size:
        return Tally(*_USE.unpack(body))
    return None


@dataclass
class Contents:
    """What the records so far add up to.

    adds   pages that are there, by id, least recently added or used first
    """

    adds: dict[int, Add] = field(default_factory=dict)
    slots: dict[int, int] = field(default_factory=dict)  # id of the page in a slot
    n_records: int = 0
    n_requests: int = 0
    n_tokens: int = 0
    last_id: int = 0

    def apply(self, record: Record) -> None:
        self.n_records += 1
        match record:
            case Add():
                if (old := self.slots.get(record.slot)) is not None:
                    self.adds.pop(old, None)
                self.adds[record.id], self.slots[record.slot] = record, record.id
                self.last_id = max(self.last_id, record.id)
            case Drop():
                if (add := self.adds.pop(record.id, None)) is not None:
                    self.slots.pop(add.slot, None)
            case Use():
                self.n_requests, self.n_tokens = self.n_requests + 1, self.n_tokens + record.n_tokens
                if record.id in self.adds:
                    self.adds[record.id] = self.adds.pop(record.id)
            case Tally():
                self.n_requests += record.n_requests
                self.n_tokens += record.n_tokens

    def compact(self) -> "list[Record]":
        """Records that add up to the same."""
        return [Tally(self.n_requests, self.n_tokens), *self.adds.values()]
