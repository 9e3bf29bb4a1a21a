"""Reading and writing at offsets, the same on every system. The only place where the store touches file contents.

A test double that fails, or that kills the process, between any two of these is given to the store in its place.
"""

import contextlib
import os
import sys
import threading
from pathlib import Path

_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01  # fallocate(2)


class Files:
    """Operations on file descriptors. All raise OSError; reads and writes may come from several threads."""

    def __init__(self) -> None:
        self._position = threading.Lock()  # where the system has no pread, offset and transfer must not be parted

    def open_writable(self, path: Path) -> int:
        """Opens or creates, for this user alone."""
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)

    def open_readable(self, path: Path) -> int:
        return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))

    def close(self, fd: int) -> None:
        os.close(fd)

    def read(self, fd: int, buffer: memoryview, offset: int) -> int:
        """Fill buffer from offset on. -> bytes read, less at the end of the file."""
        n = 0
        while n < len(buffer):
            got = self._read_some(fd, buffer[n:], offset + n)
            if not got:
                break
            n += got
        return n

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> None:
        view = memoryview(data)
        while view:
            if hasattr(os, "pwrite"):
                n = os.pwrite(fd, view, offset)
            else:
                with self._position:
                    os.lseek(fd, offset, os.SEEK_SET)
                    n = os.write(fd, view)
            view, offset = view[n:], offset + n

    def truncate(self, fd: int, n_bytes: int) -> None:
        os.ftruncate(fd, n_bytes)

    def sync(self, fd: int) -> None:
        """Wait until the data is on the medium."""
        getattr(os, "fdatasync", os.fsync)(fd)

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)

    def punch(self, fd: int, offset: int, n_bytes: int) -> None:
        """Give the space of a range back where the system can; its content is lost or not."""
        if sys.platform != "linux":
            return
        import ctypes

        with contextlib.suppress(AttributeError):
            fallocate = ctypes.CDLL(None).fallocate
            fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
            fallocate(fd, _PUNCH_HOLE_KEEP_SIZE, offset, n_bytes)

    def _read_some(self, fd: int, buffer: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(fd, [buffer], offset)
        with self._position:
            os.lseek(fd, offset, os.SEEK_SET)
            data = os.read(fd, len(buffer))
        buffer[: len(data)] = data
        return len(data)


def file_size(path: Path) -> int:
    """Bytes that a file takes on disk, holes not counted where the system tells; 0 if it is not there."""
    try:
        stat = path.stat()
    except OSError:
        return 0
    return stat.st_blocks * 512 if hasattr(stat, "st_blocks") else stat.st_size
