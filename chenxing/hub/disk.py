"""Writing large files: room is checked before, a full disk is named, checksums are taken in one pass."""

import contextlib
import errno
import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from chenxing.errors import DownloadError

CHUNK_BYTES = 1 << 20

_FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}
_WINDOWS_FULL = {39, 112}  # ERROR_HANDLE_DISK_FULL, ERROR_DISK_FULL


def human_bytes(n_bytes: int) -> str:
    """`n_bytes` in decimal units with three digits, as file managers and hubs show it: 98.4 MB, 1.23 GB."""
    size = float(n_bytes)
    for unit in ("B", "kB", "MB"):
        if size < 999.5:
            return f"{size:.3g} {unit}" if unit != "B" else f"{n_bytes} B"
        size /= 1000
    return f"{size:.3g} GB" if size < 999.5 else f"{size / 1000:.3g} TB"


def free_bytes(folder: Path) -> int:
    """Bytes that this user may still write where `folder` is, or will be made."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def full_disk_error(folder: Path, needed: int, what: str) -> DownloadError:
    return DownloadError(
        f"{what}: the disk of {folder} is too full: {human_bytes(needed)} needed, {human_bytes(free_bytes(folder))} "
        "free. Free some space (`chenxing list` and `chenxing rm` show and remove models), or set CHENXING_HOME (for "
        "temporary files TMPDIR) to a folder on another disk"
    )


def require_space(folder: Path, needed: int, what: str) -> None:
    """Raises DownloadError if `needed` more bytes do not fit where `folder` is."""
    if needed > free_bytes(folder):
        raise full_disk_error(folder, needed, what)


@contextlib.contextmanager
def disk_errors_named(folder: Path, needed: int, what: str) -> Iterator[None]:
    """Turns what the system says against writing into a DownloadError: a full disk, a forbidden folder, others."""
    try:
        yield
    except PermissionError as error:
        raise DownloadError(
            f"{what}: cannot write {error.filename or folder}: {error.strerror}. Another program may be using the "
            "file; or set CHENXING_HOME to a folder of yours"
        ) from error
    except OSError as error:
        if error.errno in _FULL or getattr(error, "winerror", None) in _WINDOWS_FULL:
            raise full_disk_error(folder, needed, what) from error
        raise DownloadError(f"{what}: cannot write in {folder}: {error.strerror or error}") from error


def hash_file(path: Path, on_bytes: Callable[[int], object], digest: "hashlib._Hash | None" = None) -> "hashlib._Hash":
    """SHA-256 of a file's content, added to `digest` if one is given; on_bytes(n) follows the reading."""
    digest = digest or hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            on_bytes(len(chunk))
    return digest
