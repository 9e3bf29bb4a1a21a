"""The writer's lock of a store: held by one process, released by the system when that ends, however it ends.

Taken without waiting, at every request of a process that does not have it, and on the path of every start: the system
call alone, for which importing the filelock package would cost the start more than opening the store.
"""

import os
import sys
from pathlib import Path

from chenxing.kvcache.files import Files

if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


class WriterLock:
    """A lock that is held from `acquire` to `release`."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    @classmethod
    def acquire(cls, files: Files, path: Path) -> "WriterLock | None":
        """None if another process, or another store of this process, holds it. Raises OSError if it cannot be made."""
        fd = files.open_writable(path)
        try:
            _lock(fd)
            lock = cls(fd)
            if lock.is_at(path):
                return lock
        except (BlockingIOError, PermissionError):  # Windows says the latter
            pass
        except OSError:
            os.close(fd)
            raise
        os.close(fd)
        return None

    def is_at(self, path: Path) -> bool:
        """Whether the locked file is still the one of this name: a cleaner may have removed it."""
        try:
            return self._fd is not None and os.path.samestat(os.fstat(self._fd), path.stat())
        except OSError:
            return False

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
