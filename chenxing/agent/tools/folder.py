"""One folder that a model may read and write, and nothing outside of it.

A path is a list of names below the folder: no "..", no absolute path, no name that a system gives a meaning of its own.
Links are never followed, not even inside. Only regular files are opened; a name that is a device, pipe or socket is
refused before it is opened for good.

Where the system has openat, each folder of a path is opened relative to the one before it, with O_NOFOLLOW: whoever
moves folders or swaps links in meanwhile wins nothing. Elsewhere (Windows) paths are checked, opened, and the opened
file is compared with what was checked. Hard links cannot be told from files, on any system; writing replaces them.
"""

import contextlib
import errno
import os
import secrets
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chenxing.agent.tools.tool import ToolError
from chenxing.errors import AgentError
from chenxing.file_names import is_ordinary

MAX_READ_BYTES = 1 << 20
MAX_WRITE_BYTES = 1 << 20


@dataclass(frozen=True)
class Entry:
    """path  from the folder, with slashes; kind is "file", "folder" or "other", links among the last"""

    path: str
    kind: str
    n_bytes: int


class Folder(ABC):
    """root  an absolute path. Methods raise ToolError, which names the path as it was given."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @abstractmethod
    def entries(self, path: str) -> list[Entry]:
        """What is directly in a folder, sorted by name."""

    @abstractmethod
    def read(self, path: str) -> bytes:
        """A file of at most MAX_READ_BYTES."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Make or replace a file, whole or not at all, and the folders that lead to it."""

    def exists(self, path: str) -> bool:
        """Whether there is something of this name, be it what it may."""
        *parents, name = _file_names(path)
        try:
            return any(entry.path.rpartition("/")[2] == name for entry in self.entries("/".join(parents)))
        except ToolError:
            return False


def open_folder(root: str | Path) -> Folder:
    """Raises AgentError if it is none."""
    path = Path(root).expanduser().resolve()
    if not path.is_dir():
        raise AgentError(f"{root}: expected a folder")
    return (
        OpenatFolder(path) if {os.open, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd else CheckedFolder(path)
    )


def names_of(path: str) -> list[str]:
    """The names of a path below the folder; none for the folder itself. Raises ToolError for any other path."""
    if "\0" in path or len(path) > 4096:
        raise ToolError(f"{path[:80]!r}: expected a path")
    if path.startswith(("/", "\\", "~")) or (len(path) > 1 and path[1] == ":"):
        raise ToolError(f"{path!r}: expected a path inside the folder, as in notes/today.txt, not an absolute one")
    names = [name for name in path.replace("\\", "/").split("/") if name not in ("", ".")]
    for name in names:
        if name == "..":
            raise ToolError(f"{path!r}: expected a path inside the folder, without '..'")
        if os.name == "nt" and not is_ordinary(name):
            raise ToolError(f"{path!r}: {name!r} is no name of a file")
    return names


class OpenatFolder(Folder):
    """Walks from one descriptor to the next."""

    def entries(self, path: str) -> list[Entry]:
        with self._opened(path, names_of(path)) as fd, os.scandir(fd) as found:
            prefix = "/".join(names_of(path))
            return sorted((_entry(prefix, item) for item in found), key=lambda entry: entry.path)

    def read(self, path: str) -> bytes:
        *parents, name = _file_names(path)
        with self._opened(path, parents) as folder, _told(path):
            _check_regular(path, os.stat(name, dir_fd=folder, follow_symlinks=False))
            # O_NONBLOCK: a pipe without a writer would otherwise hold us; a regular file does not know it
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, dir_fd=folder)
            with open(fd, "rb") as file:
                return _read(path, file.fileno())

    def write(self, path: str, data: bytes) -> None:
        *parents, name = _file_names(path)
        _check_size(path, data)
        with self._opened(path, parents, make=True) as folder, _told(path):
            mode = None
            with contextlib.suppress(FileNotFoundError):
                there = os.stat(name, dir_fd=folder, follow_symlinks=False)
                _check_regular(path, there)
                mode = stat.S_IMODE(there.st_mode)
            temporary = f".{secrets.token_hex(8)}.tmp"
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder)
            try:
                if mode is not None:
                    os.fchmod(fd, mode)
                _write(fd, data)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                os.unlink(temporary, dir_fd=folder)
                raise

    @contextmanager
    def _opened(self, path: str, names: list[str], *, make: bool = False) -> Iterator[int]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with _told(path):
            fd = os.open(self.root, flags)
        try:
            for name in names:
                with _told(path):
                    if make:
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(name, dir_fd=fd)
                    inner = os.open(name, flags | os.O_NOFOLLOW, dir_fd=fd)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)


class CheckedFolder(Folder):
    """Checks a path, opens it, and checks that what was opened is what was checked."""

    def entries(self, path: str) -> list[Entry]:
        names = names_of(path)
        with _told(path), os.scandir(self._checked(path, names)) as found:
            return sorted((_entry("/".join(names), item) for item in found), key=lambda entry: entry.path)

    def read(self, path: str) -> bytes:
        names = _file_names(path)
        with _told(path):
            place = self._checked(path, names)
            before = os.lstat(place)
            _check_regular(path, before)
            with open(place, "rb") as file:
                after = os.fstat(file.fileno())
                if (before.st_dev, before.st_ino) != (after.st_dev, after.st_ino):
                    raise ToolError(f"{path!r}: was exchanged while it was opened")
                return _read(path, file.fileno())

    def write(self, path: str, data: bytes) -> None:
        *parents, name = _file_names(path)
        _check_size(path, data)
        with _told(path):
            folder = self.root
            for parent in parents:
                folder /= parent
                with contextlib.suppress(FileExistsError):
                    folder.mkdir()
                _check_no_link(path, folder)
            folder = self._checked(path, parents)
            with contextlib.suppress(FileNotFoundError):
                _check_regular(path, os.lstat(folder / name))
            temporary = folder / f".{secrets.token_hex(8)}.tmp"
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0))
            try:
                _write(fd, data)
                self._checked(path, parents)
                os.replace(temporary, folder / name)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise

    def _checked(self, path: str, names: list[str]) -> Path:
        place = self.root
        for name in names:
            place /= name
            _check_no_link(path, place)
        if place.resolve(strict=True) != place:
            raise ToolError(f"{path!r}: leads out of the folder")
        return place


def _file_names(path: str) -> list[str]:
    names = names_of(path)
    if not names:
        raise ToolError(f"{path!r}: expected a file's name")
    return names


def _entry(prefix: str, item: "os.DirEntry[str]") -> Entry:
    is_file, is_folder = item.is_file(follow_symlinks=False), item.is_dir(follow_symlinks=False)
    n_bytes = 0
    if is_file:
        with contextlib.suppress(OSError):
            n_bytes = item.stat(follow_symlinks=False).st_size
    return Entry(f"{prefix}/{item.name}" if prefix else item.name, _kind(is_file, is_folder), n_bytes)


def _kind(is_file: bool, is_folder: bool) -> str:
    return "file" if is_file else "folder" if is_folder else "other"


def _check_regular(path: str, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise ToolError(f"{path!r}: is a link, and links are not followed")
    if not stat.S_ISREG(found.st_mode):
        raise ToolError(
            f"{path!r}: is no file, but {'a folder' if stat.S_ISDIR(found.st_mode) else 'a device or pipe'}"
        )


def _check_no_link(path: str, place: Path) -> None:
    found = os.lstat(place)
    is_junction = getattr(found, "st_reparse_tag", 0) == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1)
    if stat.S_ISLNK(found.st_mode) or is_junction:
        raise ToolError(f"{path!r}: goes through a link, and links are not followed")


def _check_size(path: str, data: bytes) -> None:
    if len(data) > MAX_WRITE_BYTES:
        raise ToolError(f"{path!r}: expected at most {MAX_WRITE_BYTES} bytes to write, found {len(data)}")


def _read(path: str, fd: int) -> bytes:
    """The file of an open descriptor, which stays open."""
    found = os.fstat(fd)
    _check_regular(path, found)
    with open(fd, "rb", closefd=False) as file:
        data = file.read(MAX_READ_BYTES + 1)
    if len(data) > MAX_READ_BYTES:
        raise ToolError(f"{path!r}: expected at most {MAX_READ_BYTES} bytes, found {found.st_size}")
    return data


def _write(fd: int, data: bytes) -> None:
    """Closes it."""
    with open(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            reason = "there is no such file or folder"
        elif error.errno == errno.ELOOP:  # O_NOFOLLOW met one
            reason = "is a link, and links are not followed"
        elif isinstance(error, NotADirectoryError):
            reason = "goes through a link or a file, where a folder was expected"
        else:
            reason = error.strerror or str(error)
        raise ToolError(f"{path!r}: {reason}") from error
