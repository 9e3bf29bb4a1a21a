"""A GGUF file's numbers: scalar and numeric-array metadata, and every tensor as floats.

The gguf package's reader would do, but takes half a minute over a vocabulary of 262,144 strings; here arrays of strings
are stepped over. The numbers are decoded by the gguf package.

Source: the GGUF specification (ggml, docs/gguf.md), version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGUFValueType as Kind

SCALARS = {
    Kind.UINT8: "B",
    Kind.INT8: "b",
    Kind.UINT16: "H",
    Kind.INT16: "h",
    Kind.UINT32: "I",
    Kind.INT32: "i",
    Kind.FLOAT32: "f",
    Kind.BOOL: "?",
    Kind.UINT64: "Q",
    Kind.INT64: "q",
    Kind.FLOAT64: "d",
}
ALIGNMENT = 32


class GGUFNumbers:
    """metadata: all keys but those of string arrays. tensors(): names and float arrays, rows first, one at a time."""

    def __init__(self, path: Path) -> None:
        self._data = np.memmap(path, mode="r")
        self._at = 0
        magic, version, n_tensors, n_keys = self._unpack("4sIQQ")
        assert (magic, version) == (b"GGUF", 3), (magic, version)
        self.metadata: dict[str, Any] = {}
        for _ in range(n_keys):
            key = self._string()
            value = self._value(Kind(self._unpack("I")[0]))
            if value is not None:
                self.metadata[key] = value
        self._infos = [self._tensor_info() for _ in range(n_tensors)]
        self._at += -self._at % self.metadata.get("general.alignment", ALIGNMENT)

    def tensors(self) -> Iterator[tuple[str, np.ndarray]]:
        for name, shape, ggml_type, offset in self._infos:
            block_size, type_size = gguf.GGML_QUANT_SIZES[ggml_type]
            n_bytes = int(np.prod(shape)) // block_size * type_size
            start = self._at + offset
            rows = self._data[start : start + n_bytes].reshape(*shape[:-1], -1)
            yield name, gguf.quants.dequantize(rows, ggml_type)

    def _unpack(self, layout: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{layout}", self._data, self._at)
        self._at += struct.calcsize(f"<{layout}")
        return values

    def _string(self) -> str:
        (n,) = self._unpack("Q")
        self._at += n
        return bytes(self._data[self._at - n : self._at]).decode()

    def _value(self, kind: Kind) -> Any:
        """None stands for an array of strings, stepped over."""
        if kind == Kind.STRING:
            return self._string()
        if kind != Kind.ARRAY:
            return self._unpack(SCALARS[kind])[0]
        element, n = self._unpack("IQ")
        if element == Kind.STRING:
            for _ in range(n):
                (length,) = self._unpack("Q")
                self._at += length
            return None
        return list(self._unpack(f"{n}{SCALARS[Kind(element)]}"))

    def _tensor_info(self) -> tuple[str, tuple[int, ...], gguf.GGMLQuantizationType, int]:
        name = self._string()
        (n_dims,) = self._unpack("I")
        ne = self._unpack(f"{n_dims}Q")
        ggml_type, offset = self._unpack("IQ")
        return name, ne[::-1], gguf.GGMLQuantizationType(ggml_type), offset
