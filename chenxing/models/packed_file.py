"""The packed-weights file: kernels' tiles of a model, made once, mapped ever after.

File     magic 8 bytes, u64 length of the index, xxh3-128 of the index 16 bytes, index (JSON), zeros to a multiple of
         64; then the body: tensors, each at a multiple of 64, and 64 KiB of zeros, so that prefetches and loads past
         the end stay inside
Index    {"key": ..., "model": path, "tensors": {name: [offset in the body, n_bytes, xxh3-64]}, "body": n_bytes,
         "unpacked": {name: xxh3-64}}, the last for tensors that are used from the GGUF itself
The key names the model's files (path-free: sizes, modification times, digests of the first bytes and of samples) and
the code that packs. Every byte that kernels read is checked when the file is mapped, by several threads: about 0.1 s
for 1 GB that the system has in memory. A file that is damaged, stale or foreign is packed anew; it is never trusted
over the GGUF.
"""

import json
import mmap
import os
import struct
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xxhash

from chenxing.cores import cores
from chenxing.gguf import GGUF
from chenxing.kernels.layout import ALIGN
from chenxing.models.packed_stream import Places, lay_out, packed_pieces, source_name
from chenxing.models.spec import TensorSpec

MAGIC = b"CXPACK\x00\x02"
TEMPORARY = ".tmp"
_HEAD = struct.Struct("<8sQ16s")
_MAX_INDEX_BYTES = 1 << 26
HUGE_PAGE = 1 << 21
_MAX_CHECKERS = 4  # more threads only wait for memory
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Index:
    """What a packed file says of itself; checked against its digest, but not against the body."""

    key: str
    model: str
    tensors: dict[str, tuple[int, int, str]]
    unpacked: dict[str, str]
    body: int
    start: int  # of the body


@cache
def _code_id() -> str:
    """Digest of the code that decides the packed bytes."""
    root = Path(__file__).parent
    own = [root / name for name in ("packing.py", "packed_stream.py", "packed_file.py")]
    files = [*sorted((root.parent / "quants").glob("*.py")), *own]
    return xxhash.xxh3_64_hexdigest(b"\0".join(f.read_bytes() for f in files))


def model_key(model: GGUF, specs: Sequence[TensorSpec]) -> str:
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


def map_packed(path: Path, key: str, *, partly_read: bool = False) -> tuple[np.ndarray, Places, dict[str, str]] | None:
    """The body, u8, read-only, its tensors and all digests, if the file is sound, whole and of this key.

    partly_read: kernels will not read all of it: what the check has brought into this process's memory is let go
    """
    try:
        with path.open("rb") as f:
            index = _read_index(f)
            mapping = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    if index is None or index.key != key or len(mapping) != index.start + index.body:
        return None
    _advise(mapping)
    body = np.frombuffer(mapping, np.uint8, offset=index.start)
    if not _is_sound(body, list(index.tensors.values())):
        return None
    if partly_read and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)
    places = {name: (offset, n) for name, (offset, n, _) in index.tensors.items()}
    return body, places, {name: digest for name, (_, _, digest) in index.tensors.items()} | index.unpacked


def _advise(mapping: mmap.mmap) -> None:
    """Ask for huge pages, in which the disk is read ahead of the checks too; without them for all of the file."""
    try:
        if hasattr(mmap, "MADV_HUGEPAGE"):
            mapping.madvise(mmap.MADV_HUGEPAGE)
            return
    except OSError:  # a kernel that was built without them
        pass
    if hasattr(mmap, "MADV_WILLNEED"):
        mapping.madvise(mmap.MADV_WILLNEED)


def unpacked_digests(model: GGUF, specs: Sequence[TensorSpec]) -> dict[str, str]:
    """xxh3-64 of each tensor that no spec packs: it is used as the file has it."""
    packed = {source_name(model, spec) for spec in specs}
    digests = {}
    for name in sorted(model.tensors.keys() - packed):
        digests[name] = xxhash.xxh3_64_hexdigest(model.data(name).data)
        model.release(name)
    return digests


def weights_identity(model: GGUF, digests: dict[str, str]) -> str:
    """The same for files with the same weights, whatever they are called and whatever else they say.

    digests: of every tensor that kernels read, as they read it
    """
    tensors = [(name, t.ggml_type, t.shape) for name, t in sorted(model.tensors.items())]
    return xxhash.xxh3_128_hexdigest(repr((tensors, sorted(digests.items()))).encode())


def read_index(path: Path) -> Index | None:
    """The index of a packed file, or None if it is none or damaged. Reads nothing else."""
    try:
        with path.open("rb") as f:
            return _read_index(f)
    except OSError:
        return None


def _read_index(f: BinaryIO) -> Index | None:
    head = f.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    magic, length, digest = _HEAD.unpack(head)
    if magic != MAGIC or length > _MAX_INDEX_BYTES:
        return None
    text = f.read(length)
    if xxhash.xxh3_128_digest(text) != digest:
        return None
    fields: dict[str, Any] = json.loads(text)
    tensors = {name: (offset, n, check) for name, (offset, n, check) in fields["tensors"].items()}
    unpacked = fields.get("unpacked", {})  # files of earlier versions, which their keys rule out, have none
    return Index(fields["key"], fields["model"], tensors, unpacked, fields["body"], _aligned(_HEAD.size + length))


def _is_sound(body: np.ndarray, tensors: list[tuple[int, int, str]]) -> bool:
    """Whether every tensor has its digest. The hash lets other threads run; the largest tensors come first."""
    queue = iter(sorted(tensors, key=lambda tensor: -tensor[1]))
    damaged: list[int] = []

    def check() -> None:
        for offset, n_bytes, digest in queue:
            if damaged or xxhash.xxh3_64_hexdigest(body[offset : offset + n_bytes].data) != digest:
                damaged.append(offset)

    threads = [threading.Thread(target=check) for _ in range(min(cores().n_threads, _MAX_CHECKERS) - 1)]
    for thread in threads:
        thread.start()
    check()
    for thread in threads:
        thread.join()
    return not damaged


def write_packed(path: Path, key: str, model: GGUF, specs: Sequence[TensorSpec], report: Progress) -> None:
    """Tensors stream into a temporary file behind a gap for the index; renaming makes it visible whole.

    Raises OSError, and leaves nothing behind then.
    """
    places, n_bytes = lay_out(model, specs)
    hashes = {name: xxhash.xxh3_64() for name in places}
    unpacked = unpacked_digests(model, specs)

    def head() -> bytes:
        tensors = {name: [*place, hashes[name].hexdigest()] for name, place in places.items()}
        index = {"key": key, "model": str(model.path.absolute()), "tensors": tensors, "body": n_bytes}
        text = json.dumps(index | {"unpacked": unpacked}).encode()
        whole = _HEAD.pack(MAGIC, len(text), xxhash.xxh3_128_digest(text)) + text
        return whole.ljust(_aligned(len(whole)), b"\0")

    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=TEMPORARY)
    try:
        with os.fdopen(handle, "wb", HUGE_PAGE) as f:
            start, at = f.write(head()), 0
            for name, piece in packed_pieces(model, specs):
                gap = max(0, places[name][0] - at)
                f.write(bytes(gap))
                _write_aligned(f, piece.data)
                hashes[name].update(piece.data)
                at += gap + len(piece)
                report("pack weights", at / n_bytes)
            f.write(bytes(n_bytes - at))
            f.seek(0)
            assert f.write(head()) == start  # digests are of fixed length
            if sys.platform != "win32":  # which removes no file that is read-only
                os.fchmod(f.fileno(), 0o400)  # who maps it must not see it change: nobody writes to it by chance
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _write_aligned(f: BinaryIO, data: memoryview) -> None:
    """Write through f's buffer of HUGE_PAGE bytes so that each of its writes is one huge page of the file.

    Linux keeps what one write brings in one piece of memory where it can (ext4, xfs, btrfs); a whole, aligned huge
    page is then mapped as one: translations stop counting in the many short reads of a small model.
    """
    while data:
        n = HUGE_PAGE - f.tell() % HUGE_PAGE
        f.write(data[:n])
        data = data[n:]


def _aligned(n: int) -> int:
    return -(-n // ALIGN) * ALIGN
