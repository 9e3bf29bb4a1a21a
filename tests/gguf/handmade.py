"""GGUF files put together byte by byte, so that every field can be wrong."""

import struct
from collections.abc import Sequence

STRING, ARRAY = 8, 9


def string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def pair(key: bytes, code: int, value: bytes) -> bytes:
    return string(key) + struct.pack("<I", code) + value


def array(code: int, n: int, items: bytes) -> bytes:
    return struct.pack("<IQ", code, n) + items


def tensor(name: bytes, ne: Sequence[int], code: int, offset: int) -> bytes:
    return string(name) + struct.pack(f"<I{len(ne)}QIQ", len(ne), *ne, code, offset)


def gguf_file(
    pairs: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    data: bytes = b"",
    *,
    version: int = 3,
    alignment: int = 32,
) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs)) + b"".join(pairs) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + data
