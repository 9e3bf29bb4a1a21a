"""The writer's lock of a store: held by one process, released by the system when that ends, however it ends.

Taken without waiting, at every request of a process that does not have it, and on the path of every start: the system
call alone, for which importing the filelock package would cost the start more than opening the store.
"""

import os
import sys
from pathlib import Path

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
    def acquire(cls, path: Path) -> "WriterLock | None":
        """None if another process, or another store of this process, holds it. Raises OSError if it cannot be made."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(fd)
            if not os.path.samestat(os.fstat(fd), path.stat()):  # removed by a cleaner since it was opened
                raise BlockingIOError
        except (BlockingIOError, PermissionError, FileNotFoundError):
            os.close(fd)
            return None
        except OSError:
            os.close(fd)
            raise
        return cls(fd)

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
