"""Tables on disk: what a tokenizer needs is computed once per vocabulary.

A file is a header, a digest and arrays one behind the other. It is read whole, and believed only if the digest over
everything else and the key are right: a damaged, truncated, foreign or vanished file is a miss, and a folder that
cannot be written costs the next start the same work again, nothing more. Files are replaced, never written in place.
"""

import contextlib
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
from xxhash import xxh3_128_digest

from chenxing.config import settings

Arrays = dict[str, np.ndarray]

_MAGIC = b"CXTOKEN1"  # the number is the version of the layout and of what builds the arrays
_HEAD = struct.Struct("<8s16sI")  # magic, key, number of arrays
_ARRAY = struct.Struct("<24s2sQ")  # name, dtype, number of items
_DIGEST_BYTES = 16
_ALIGNMENT = 8
_DTYPES: dict[bytes, np.dtype] = {b"u1": np.dtype("u1"), b"u4": np.dtype("<u4")}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def cached(key: bytes, build: Callable[[], Arrays]) -> Arrays:
    """The arrays of this key from the cache, or from build() and into the cache. key: 16 bytes, naming the content."""
    assert len(key) == _DIGEST_BYTES
    path = settings().paths.cache / "tokenizers" / f"{key.hex()}.bin"
    with contextlib.suppress(OSError):
        arrays = _unpacked(path.read_bytes(), key)
        if arrays is not None:
            return arrays
    arrays = build()
    with contextlib.suppress(OSError):
        _write(path, _packed(key, arrays))
    return arrays


def _write(path: Path, data: bytes) -> None:
    from tempfile import NamedTemporaryFile  # takes longer to import than a cached tokenizer to load

    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
        try:
            file.write(data)
            file.close()  # Windows renames no open file
            os.replace(file.name, path)
        except OSError:
            file.close()
            os.unlink(file.name)
            raise


def _packed(key: bytes, arrays: Arrays) -> bytes:
    head = [_HEAD.pack(_MAGIC, key, len(arrays))]
    head += [_ARRAY.pack(name.encode(), _NAMES[array.dtype], array.size) for name, array in arrays.items()]
    body = _aligned(b"".join(head)) + b"".join(_aligned(array.tobytes()) for array in arrays.values())
    return xxh3_128_digest(body) + body


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)


def _unpacked(data: bytes, key: bytes) -> Arrays | None:
    body = memoryview(data)[_DIGEST_BYTES:]
    if len(body) < _HEAD.size or xxh3_128_digest(body) != data[:_DIGEST_BYTES]:
        return None
    magic, found, n_arrays = _HEAD.unpack_from(body)
    if magic != _MAGIC or found != key:
        return None
    arrays, place = {}, _HEAD.size + n_arrays * _ARRAY.size
    place += -place % _ALIGNMENT
    for i in range(n_arrays):
        name, dtype_name, n = _ARRAY.unpack_from(body, _HEAD.size + i * _ARRAY.size)
        dtype = _DTYPES[dtype_name]
        array = np.frombuffer(body, dtype, n, place)
        arrays[name.decode().rstrip("\0")] = np.require(array, requirements="A")  # memoryviews of it must be indexable
        place += n * dtype.itemsize
        place += -place % _ALIGNMENT
    return arrays
