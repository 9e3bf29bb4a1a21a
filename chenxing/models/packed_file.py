"""The packed-weights file: kernels' tiles of a model, made once, mapped ever after.

File     magic 8 bytes, u64 length of the index, xxh3-128 of the index 16 bytes, index (JSON), zeros to a multiple of
         64, tensors each at a multiple of 64, 64 KiB of zeros so that prefetches and loads past the end stay inside
Index    {"key": ..., "tensors": {name: [offset, n_bytes, xxh3-64]}, "end": file size}
The key names the model's files (path-free: sizes, modification times, digests of the first bytes and of samples) and
the code that packs. A file that is damaged, stale or foreign is packed anew; it is never trusted over the GGUF.
"""

import json
import mmap
import os
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import xxhash

from chenxing.config import settings
from chenxing.gguf import GGUF
from chenxing.kernels.memory import aligned
from chenxing.models.packing import pack_tensor
from chenxing.models.spec import TensorSpec

MAGIC = b"CXPACK\x00\x01"
ALIGN, TAIL = 64, 65536
_HEAD = struct.Struct("<8sQ16s")
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class PackedFile:
    """Packed tensors: views of one mapping or one array."""

    data: np.ndarray
    places: dict[str, tuple[int, int]]

    def array(self, name: str) -> np.ndarray:
        """The tensor's packed bytes, u8 flat; its address is a multiple of 64."""
        offset, n_bytes = self.places[name]
        return self.data[offset : offset + n_bytes]

    @property
    def n_bytes(self) -> int:
        return sum(n for _, n in self.places.values())


@cache
def _code_id() -> str:
    """Digest of the code that decides the packed bytes."""
    root = Path(__file__).parent
    files = [*sorted((root.parent / "quants").glob("*.py")), root / "packing.py", root / "packed_file.py"]
    return xxhash.xxh3_64_hexdigest(b"\0".join(f.read_bytes() for f in files))


def model_key(model: GGUF, specs: list[TensorSpec]) -> str:
    """Identity of these files' contents and of what is made of them."""
    digest = xxhash.xxh3_128(_code_id().encode())
    digest.update(repr(specs).encode())
    for path in model.paths:
        stat = path.stat()
        digest.update(struct.pack("<QQ", stat.st_size, stat.st_mtime_ns))
        with path.open("rb") as f:
            digest.update(f.read(1 << 16))
            for i in range(1, 65):
                f.seek(stat.st_size * i // 65)
                digest.update(f.read(4096))
    return digest.hexdigest()


def open_packed(model: GGUF, specs: list[TensorSpec], on_progress: Progress | None = None) -> PackedFile:
    """The packed tensors of a model: mapped if the cache has them, else packed, into the cache if it can be written."""
    key = model_key(model, specs)
    path = settings().paths.cache / "weights" / f"{key}.pack"
    found = _map(path, key)
    if found is not None:
        return found
    report = on_progress or (lambda stage, fraction: None)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write(path, key, model, specs, report)
        found = _map(path, key)
    except OSError:  # unwritable or full
        found = None
    return found or _pack_in_memory(model, specs, report)


def _map(path: Path, key: str) -> PackedFile | None:
    try:
        with path.open("rb") as f:
            mapping = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    data = np.frombuffer(mapping, np.uint8)
    index = _index(data, key)
    if index is None:
        return None
    for offset, n_bytes, digest in index.values():
        if xxhash.xxh3_64_intdigest(data[offset : offset + n_bytes].data) != digest:
            return None
    return PackedFile(data, {name: (offset, n) for name, (offset, n, _) in index.items()})


def _index(data: np.ndarray, key: str) -> dict[str, tuple[int, int, int]] | None:
    """The index if it is sound, of this key, and of a file of this size."""
    if len(data) < _HEAD.size:
        return None
    magic, length, digest = _HEAD.unpack(data[: _HEAD.size].tobytes())
    text = data[_HEAD.size : _HEAD.size + min(length, len(data))].tobytes()
    if magic != MAGIC or xxhash.xxh3_128_digest(text) != digest:
        return None
    index = json.loads(text)
    if index["key"] != key or index["end"] != len(data):
        return None
    return {name: (offset, n, digest) for name, (offset, n, digest) in index["tensors"].items()}


def _write(path: Path, key: str, model: GGUF, specs: list[TensorSpec], report: Progress) -> None:
    """Tensors stream into a temporary file behind a gap for the index; renaming makes it visible whole."""
    room = ALIGN * (8 + 4 * len(specs))  # a line of the index has at most 256 bytes
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as f:
            tensors = {}
            f.seek(room)
            for i, spec in enumerate(specs):
                packed = pack_tensor(model, spec, _source(model, spec))
                offset = f.tell()
                f.write(packed.data)
                f.write(bytes(-len(packed) % ALIGN))
                tensors[spec.name] = (offset, len(packed), xxhash.xxh3_64_intdigest(packed.data))
                report("pack weights", (i + 1) / len(specs))
            f.write(bytes(TAIL))
            text = json.dumps({"key": key, "tensors": tensors, "end": f.tell()}).encode()
            assert _HEAD.size + len(text) <= room
            f.seek(0)
            f.write(_HEAD.pack(MAGIC, len(text), xxhash.xxh3_128_digest(text)) + text)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _pack_in_memory(model: GGUF, specs: list[TensorSpec], report: Progress) -> PackedFile:
    arrays = []
    for i, spec in enumerate(specs):
        arrays.append(pack_tensor(model, spec, _source(model, spec)))
        report("pack weights", (i + 1) / len(specs))
    places, end = {}, 0
    for spec, packed in zip(specs, arrays, strict=True):
        places[spec.name] = (end, len(packed))
        end += -(-len(packed) // ALIGN) * ALIGN
    data = aligned(end + TAIL)
    for spec in specs:
        offset, n = places[spec.name]
        data[offset : offset + n] = arrays.pop(0)
    return PackedFile(data, places)


def _source(model: GGUF, spec: TensorSpec) -> str:
    """The name of the file's tensor that serves as this one."""
    name = spec.name if spec.name in model.tensors else spec.fallback
    assert name is not None
    return name
