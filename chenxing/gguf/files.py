"""From a path to a mapped GGUF file, or to one sentence that says what the path is instead and what to do."""

import errno
import mmap
import os
import stat
from pathlib import Path

from chenxing.errors import ModelFileError, OutOfMemoryError

MAGIC = b"GGUF"
_HEAD_BYTES = 512

_CONVERT = "Convert the model with llama.cpp's convert_hf_to_gguf.py, or get it as GGUF"
_OLD = "GGUF replaced this format in 2023: get the model as GGUF"

# first bytes -> (what the file is, what to do)
_KINDS: dict[bytes, tuple[str, str]] = {
    b"version https://git-lfs": (
        "a git-LFS pointer, not the model itself",
        "Run `git lfs pull` in its repository, or download the file",
    ),
    b"PK\x03\x04": ("a zip archive, as PyTorch checkpoints (.pt, .pth, .bin) are", _CONVERT),
    **{bytes((0x80, protocol)): ("a Python pickle (an old PyTorch checkpoint)", _CONVERT) for protocol in range(2, 6)},
    b"lmgg": ("an old GGML file", _OLD),
    b"fmgg": ("an old GGMF file", _OLD),
    b"tjgg": ("an old GGJT file", _OLD),
    b"algg": ("an old GGLA adapter", "GGUF replaced this format in 2023: get the adapter as GGUF"),
    b"\x1f\x8b": ("a gzip archive", "Unpack it first"),
    b"\x28\xb5\x2f\xfd": ("a zstd archive", "Unpack it first"),
    b"\xfd7zXZ": ("an xz archive", "Unpack it first"),
    b"<": ("a web page", "The download got a page instead of the model (login or error?): fetch it again"),
    b"../": (
        "the text of a symbolic link, not what it points to",
        "The copy or checkout lost its links: give the file that it names",
    ),
    b"{": ("a JSON file", "Give the .gguf file of the model"),
}


def map_file(path: Path) -> mmap.mmap:
    """The file, mapped for reading; it begins with the magic. Raises ModelFileError, OutOfMemoryError.

    The mapping lives as long as any view of it. The file must not be truncated meanwhile.
    """
    try:
        _check_regular(path, os.stat(path))
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
            if head[:4] == MAGIC:
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            what = f"{path}: there is no room for a file of {os.path.getsize(path)} bytes in this process's memory"
            raise OutOfMemoryError(f"{what}: raise its limit (ulimit -v), or take a smaller model") from None
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ModelFileError(path, "file", "a readable file", reason, "Check the path and its permissions") from None
    raise _not_gguf(path, head)


def _check_regular(path: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        inside = sorted(entry.name for entry in os.scandir(path) if entry.name.endswith(".gguf"))
        hint = f"Give a file in it: {listed(inside)}" if inside else "There is no .gguf file in it"
        raise ModelFileError(path, "file", "a GGUF file", "a directory", hint)
    if not stat.S_ISREG(status.st_mode):
        raise ModelFileError(path, "file", "a GGUF file", "a device, pipe or socket", "Give a regular file")
    if status.st_size == 0:
        raise ModelFileError(path, "file", "a GGUF file", "an empty file", "The download failed: fetch it again")


def _missing(path: Path) -> ModelFileError:
    if path.is_symlink():
        found, hint = f"a link to {os.readlink(path)}, which does not exist", "Fetch the model again"
    else:
        found, hint = "no such file", "Check the spelling"
    return ModelFileError(path, "file", "a GGUF file", found, hint)


def _not_gguf(path: Path, head: bytes) -> ModelFileError:
    found, hint = (
        f"a file that begins with the bytes {head[:8].hex(' ')}",
        "It is damaged or no model: get another file",
    )
    if head[4:9] == b"\0\0\0\0{":  # a u64 length, always small, and a JSON header
        found, hint = "a safetensors file", _CONVERT
    elif not any(head):
        found, hint = "zero bytes at its beginning", "The download was interrupted: fetch it again"
    else:
        for start, kind in _KINDS.items():
            if head.startswith(start):
                found, hint = kind
                break
    return ModelFileError(path, "file", "a GGUF file", found, hint)


def listed(names: list[str], most: int = 5) -> str:
    """The first names, and how many more there are, for a message."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
