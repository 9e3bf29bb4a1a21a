"""All stores of a cache folder: what they hold, whether it is sound, and which must go when there is too much."""

import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xxhash import xxh3_128_digest

from chenxing.kvcache import index
from chenxing.kvcache.files import Files, file_size
from chenxing.kvcache.index import Contents
from chenxing.kvcache.lock import WriterLock
from chenxing.kvcache.radix import ID_BYTES

FILES = ("pages", "index", "index.new", "lock")
MAX_DEFAULT_BYTES = 16 << 30


@dataclass(frozen=True)
class StoreInfo:
    """One store as its index describes it.

    fingerprint       what it was made under
    n_bytes           on disk
    n_requests        that reused something, n_reused their tokens
    modified          when it was last written, seconds since the epoch
    is_in_use         a process has it open for writing
    """

    folder: Path
    fingerprint: dict[str, Any]
    page_bytes: int
    n_pages: int
    n_tokens: int
    n_bytes: int
    n_requests: int
    n_reused: int
    modified: float
    is_in_use: bool

    @property
    def name(self) -> str:
        """Of the model's file when the store was made."""
        return str(self.fingerprint.get("name", self.folder.name))


@dataclass(frozen=True)
class Verified:
    """Pages whose data is what was sealed, and pages that would be computed anew."""

    n_sound: int
    n_damaged: int


def default_disk_bytes(root: Path) -> int:
    """The limit for all stores together where none is given: a tenth of the free space, at most 16 GiB."""
    folder = root
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        return min(shutil.disk_usage(folder).free // 10, MAX_DEFAULT_BYTES)
    except OSError:
        return 0


def list_stores(root: Path) -> list[StoreInfo]:
    """All stores below root, the last written first. What is no store, or has no sound header, is left out."""
    found = [info for folder in _folders(root) if (info := _describe(folder)) is not None]
    return sorted(found, key=lambda info: -info.modified)


def verify_store(folder: Path) -> Verified:
    """Read every page of a store."""
    read = _read_index(folder)
    if read is None:
        return Verified(0, 0)
    header, contents = read
    n_sound = 0
    with contextlib.suppress(OSError), (folder / "pages").open("rb") as file:
        for add in sorted(contents.adds.values(), key=lambda add: add.slot):
            file.seek(add.slot * header.page_bytes)
            n_sound += xxh3_128_digest(file.read(header.page_bytes)) == add.digest
    return Verified(n_sound, len(contents.adds) - n_sound)


def clear_store(folder: Path) -> int | None:
    """Remove a store. -> bytes freed; None if a process is writing it, which is left alone."""
    try:
        lock = WriterLock.acquire(Files(), folder / "lock")
    except OSError:
        return None
    if lock is None:
        return None
    n_bytes = size_on_disk(folder)
    for name in FILES[:-1]:
        with contextlib.suppress(OSError):
            (folder / name).unlink()
    if os.name == "nt":  # which removes no open file
        lock.release()
    with contextlib.suppress(OSError):
        (folder / "lock").unlink()
    lock.release()
    with contextlib.suppress(OSError):  # somebody put something else there
        folder.rmdir()
    return n_bytes - size_on_disk(folder)


def size_on_disk(folder: Path) -> int:
    return sum(file_size(folder / name) for name in FILES)


def make_room(root: Path, own: Path, disk_bytes: int, needed: int) -> int:
    """Remove other stores, the longest unused first, until all and `needed` more bytes are within disk_bytes.

    -> bytes of the other stores that are left: those that are in use, or that need not go
    """
    others = [(_modified(folder), size_on_disk(folder), folder) for folder in _folders(root) if folder != own]
    left = sum(n_bytes for _, n_bytes, _ in others)
    excess = left + size_on_disk(own) + needed - disk_bytes
    for _, _, folder in sorted(others):
        if excess <= 0:
            break
        freed = clear_store(folder) or 0  # on Windows, what another process has open stays
        excess, left = excess - freed, left - freed
    return left


def _folders(root: Path) -> list[Path]:
    try:
        return [path for path in root.iterdir() if (path / "index").is_file() or (path / "pages").is_file()]
    except OSError:
        return []


def _modified(folder: Path) -> float:
    try:
        return (folder / "index").stat().st_mtime
    except OSError:
        return 0.0


def _read_index(folder: Path) -> tuple[index.Header, Contents] | None:
    try:
        data = (folder / "index").read_bytes()
    except OSError:
        return None
    found = index.unpack_header(data)
    if found is None:
        return None
    contents = Contents()
    for record, _ in index.scan(data, found[1]):
        contents.apply(record)
    return found[0], contents


def _describe(folder: Path) -> StoreInfo | None:
    read = _read_index(folder)
    if read is None:
        return None
    header, contents = read
    n_tokens = sum(len(add.key) // ID_BYTES for add in contents.adds.values())
    return StoreInfo(
        folder, header.fingerprint, header.page_bytes, len(contents.adds), n_tokens, size_on_disk(folder),
        contents.n_requests, contents.n_tokens, _modified(folder), _is_in_use(folder),
    )  # fmt: skip


def _is_in_use(folder: Path) -> bool:
    try:
        lock = WriterLock.acquire(Files(), folder / "lock")
    except OSError:
        return False
    if lock is not None:
        lock.release()
    return lock is None
