"""GGUF files, opened: metadata, tensor list and mapped data of a model, all checked, nothing copied.

Source  the GGUF specification (ggml, docs/gguf.md), versions 2 and 3; equality with the gguf package is a test.
"""

import mmap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from chenxing.errors import ModelFileError
from chenxing.gguf.cursor import DAMAGED, Cursor, shown
from chenxing.gguf.files import MAGIC, map_file
from chenxing.gguf.metadata import required, typed
from chenxing.gguf.split import check_shard, shard_paths
from chenxing.gguf.tensors import MIN_INFO_BYTES, TensorInfo, read_tensors
from chenxing.gguf.values import MIN_KEY_BYTES, read_metadata

T = TypeVar("T")

_DEFAULT_ALIGNMENT = 32


@dataclass(frozen=True, eq=False)
class GGUF:
    """An open model. Its files stay mapped as long as it, or a view of its data, lives.

    path      the file that was asked for
    paths     all files, in order; more than one if the model is split
    metadata  of the first file: bool, int, float, str; read-only 1-D arrays for numbers and bools; StringArray for
              strings; list for arrays of arrays
    tensors   of all files, by name, in file order
    maps      the mapped files, as in paths
    """

    path: Path
    paths: list[Path]
    version: int
    metadata: dict[str, Any] = field(repr=False)
    tensors: dict[str, TensorInfo] = field(repr=False)
    maps: list[mmap.mmap] = field(repr=False)

    @property
    def architecture(self) -> str:
        return self.require("general.architecture", str)

    @overload
    def get(self, key: str, kind: type[T]) -> T | None: ...
    @overload
    def get(self, key: str, kind: type[T], default: T) -> T: ...
    def get(self, key: str, kind: type[T], default: T | None = None) -> T | None:
        """The metadata value of key as bool, int, float, str, np.ndarray, StringArray or list; default where missing.

        An int serves as float. Raises ModelFileError for a value of another type.
        """
        value = typed(self.path, self.metadata, key, kind)
        return default if value is None else value

    def require(self, key: str, kind: type[T]) -> T:
        """As `get`, but a missing key raises ModelFileError too."""
        return required(self.path, self.metadata, key, kind)

    def data(self, name: str) -> np.ndarray:
        """The tensor's bytes as stored: u8[n_bytes], a read-only view of the mapped file.

        Raises ModelFileError if there is no such tensor.
        """
        tensor = self.tensors.get(name)
        if tensor is None:
            raise ModelFileError(
                self.path, f"tensor {name!r}", "a tensor of this name", "none", "The model lacks a part"
            )
        return np.ndarray((tensor.n_bytes,), np.uint8, self.maps[tensor.shard], tensor.offset)

    def release(self, name: str) -> None:
        """Take the tensor's pages out of this process's memory, as far as the system can; reading brings them back."""
        tensor = self.tensors[name]
        first = -(-tensor.offset // mmap.PAGESIZE) * mmap.PAGESIZE
        n_bytes = (tensor.offset + tensor.n_bytes) // mmap.PAGESIZE * mmap.PAGESIZE - first
        if hasattr(mmap, "MADV_DONTNEED") and n_bytes > 0:  # Windows trims such pages itself
            self.maps[tensor.shard].madvise(mmap.MADV_DONTNEED, first, n_bytes)


@dataclass(frozen=True)
class _Header:
    """What stands before a file's tensor list; the cursor is at that list."""

    cursor: Cursor
    mapping: mmap.mmap
    version: int
    n_tensors: int
    metadata: dict[str, Any]


def open_gguf(path: str | Path) -> GGUF:
    """Open a model, by any of its files if it is split. A file may hold a vocabulary only.

    Raises ModelFileError naming file, field, what was expected and what was found.
    """
    path = Path(path)
    asked = _read_header(path)
    paths = shard_paths(path, asked.metadata)
    headers = [asked if shard == path else _read_header(shard) for shard in paths]
    if len(paths) > 1:
        for no, header in enumerate(headers):
            check_shard(paths[no], header.metadata, no, len(paths))
    first = headers[0]
    tensors: dict[str, TensorInfo] = {}
    for no, header in enumerate(headers):
        alignment = _alignment(header)
        for name, tensor in read_tensors(header.cursor, header.n_tensors, alignment, no).items():
            if name in tensors:
                raise header.cursor.error(f"tensor {shown(name)}", "one of this name", "another in an earlier file")
            tensors[name] = tensor
    n_tensors = typed(paths[0], first.metadata, "split.tensors.count", int)
    if n_tensors is not None and n_tensors != len(tensors):
        hint = "The files are not of one model: fetch them again"
        raise first.cursor.error("metadata key 'split.tensors.count'", str(len(tensors)), str(n_tensors), hint)
    return GGUF(path, paths, first.version, first.metadata, tensors, [header.mapping for header in headers])


def _read_header(path: Path) -> _Header:
    mapping = map_file(path)
    cursor = Cursor(path, memoryview(mapping))
    cursor.take(len(MAGIC), "magic")
    version = cursor.u32("version")
    _check_version(cursor, version)
    n_tensors = cursor.count(MIN_INFO_BYTES, "tensor count")
    n_keys = cursor.count(MIN_KEY_BYTES, "metadata count")
    return _Header(cursor, mapping, version, n_tensors, read_metadata(cursor, n_keys))


def _check_version(cursor: Cursor, version: int) -> None:
    if version in (2, 3):
        return
    if version and version & 0xFFFF == 0:
        found = "a big-endian file"
        hint = "Get a little-endian one, or convert it with llama.cpp's gguf_convert_endian.py"
    else:
        found = f"version {version}"
        hint = "Get a newer file of this model" if version < 2 else "Update chenxing"
    raise cursor.error("version", "GGUF version 2 or 3, little-endian", found, hint)


def _alignment(header: _Header) -> int:
    key = "general.alignment"
    alignment = typed(header.cursor.path, header.metadata, key, int)
    if alignment is None:
        return _DEFAULT_ALIGNMENT
    if alignment < 1 or alignment & (alignment - 1):
        raise header.cursor.error(f"metadata key '{key}'", "a power of two", str(alignment), DAMAGED)
    return alignment
