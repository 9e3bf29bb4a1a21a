"""A small file that records are appended to, by several processes, and that may be damaged at any moment.

File    magic 8 bytes, generation 16 random bytes; then records: u32 length of the body, body, xxh3-64 of both
A record is believed if its sum is right and all before it were sound. Who writes holds a lock, takes in what others
have appended, and cuts off a torn end. A file that has grown to its limit is replaced by one of another generation.
Nothing waits for the disk: what a power cut loses is known to be missing, and costs time only (law L5).
"""

import contextlib
import os
import struct
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from xxhash import xxh3_64_intdigest

from chenxing.kvcache.files import Files
from chenxing.kvcache.lock import WriterLock

MAGIC = b"CXTURNS\x01"
_HEAD = struct.Struct("<8s16s")
_LENGTH = struct.Struct("<I")
_SUM = struct.Struct("<Q")
_LOCK_SECONDS = 0.2  # another process writes for a fraction of a millisecond


class Journal:
    """One reader's, or writer's, view of the file.

    limit_bytes  no append makes the file larger

    All methods may raise OSError. No file stays open between them.
    """

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self._path, self._limit = path, limit_bytes
        self._generation = b""
        self._at = 0  # the end of what was read and is sound; 0: there is no sound file

    def read(self) -> list[bytes]:
        """The bodies that came since the last call, by whomever; all of them if the file was replaced meanwhile."""
        try:
            with self._path.open("rb") as file:
                head = file.read(_HEAD.size)
                magic, generation = _HEAD.unpack(head) if len(head) == _HEAD.size else (b"", b"")
                if magic != MAGIC:
                    self._at = 0
                    return []
                if generation != self._generation or not self._at:
                    self._generation, self._at = generation, _HEAD.size
                file.seek(self._at)
                data = file.read(self._limit)
        except FileNotFoundError:
            self._at = 0
            return []
        bodies = list(_sound(data))
        self._at += sum(_LENGTH.size + len(body) + _SUM.size for body in bodies)
        return bodies

    @contextlib.contextmanager
    def locked(self) -> Iterator[bool]:
        """Holds the writer's lock; False if another process does not let go of it."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place, end = self._path.with_suffix(".lock"), time.monotonic() + _LOCK_SECONDS
        while (lock := WriterLock.acquire(Files(), place)) is None and time.monotonic() < end:
            time.sleep(0.001)
        try:
            yield lock is not None
        finally:
            if lock:
                lock.release()

    def has_room(self, bodies: Iterable[bytes]) -> bool:
        """Whether there is a sound file that these can be appended to."""
        return self._at > 0 and self._at + len(_packed(bodies)) <= self._limit

    def append(self, bodies: Iterable[bytes]) -> None:
        """Behind all that is sound. To be called locked, after `read`, where there is room."""
        data = _packed(bodies)
        with self._path.open("r+b") as file:
            file.truncate(self._at)
            file.seek(self._at)
            file.write(data)
        self._at += len(data)

    def replace(self, bodies: Iterable[bytes]) -> None:
        """A new file with just these. To be called locked."""
        import tempfile  # takes longer to import than this file to read

        generation, data = os.urandom(16), _packed(bodies)
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, suffix=".tmp")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(_HEAD.pack(MAGIC, generation) + data)
            os.replace(name, self._path)
        except OSError:
            os.unlink(name)
            raise
        self._generation, self._at = generation, _HEAD.size + len(data)


def _packed(bodies: Iterable[bytes]) -> bytes:
    records = [_LENGTH.pack(len(body)) + body for body in bodies]
    return b"".join(record + _SUM.pack(xxh3_64_intdigest(record)) for record in records)


def _sound(data: bytes) -> Iterator[bytes]:
    """The bodies up to the first that is cut short or damaged."""
    at = 0
    while at + _LENGTH.size <= len(data):
        end = at + _LENGTH.size + _LENGTH.unpack_from(data, at)[0]
        if end + _SUM.size > len(data) or _SUM.unpack_from(data, end)[0] != xxh3_64_intdigest(data[at:end]):
            return
        yield data[at + _LENGTH.size : end]
        at = end + _SUM.size
