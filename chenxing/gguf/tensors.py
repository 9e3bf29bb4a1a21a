"""The tensor list of one file: names, shapes, types and places, each checked against the file.

Source  the GGUF specification (ggml, docs/gguf.md), gguf_tensor_info_t; limits as in ggml's gguf.cpp.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

from chenxing.gguf.cursor import DAMAGED, Cursor, shown
from chenxing.quants.base import GGML_TYPES

MIN_INFO_BYTES = 8 + 4 + 4 + 8  # an empty name, no sizes, type, offset

_MAX_DIMS = 4  # GGML_MAX_DIMS
_OBJECT_BYTES = 1024  # what a tensor is charged beside its name
_DROPPED_TYPES = {
    4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
    36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor of a model file.

    ggml_type  key of chenxing.quants.base.GGML_TYPES
    shape      rows first: (n_rows, n_columns), that is ggml's ne reversed; () for a single number
    offset     where its data begins in the shard's file, in bytes
    shard      index of the file in GGUF.paths
    """

    name: str
    ggml_type: int
    shape: tuple[int, ...]
    offset: int
    n_bytes: int
    shard: int


_Listed = tuple[int, tuple[int, ...], int, int]  # ggml type, shape, offset in the data section, n_bytes


def read_tensors(cursor: Cursor, n: int, alignment: int, shard: int) -> dict[str, TensorInfo]:
    """The n tensor descriptions at the cursor, in file order, their data checked to lie in the file, disjoint."""
    listed: dict[str, _Listed] = {}
    for i in range(n):
        name, entry = _read_info(cursor, i)
        if name in listed:
            raise cursor.error(f"tensor {shown(name)}", "one tensor of this name", "a second one", DAMAGED)
        listed[name] = entry
    data_start = -(-cursor.position // alignment) * alignment
    size = len(cursor.data)
    tensors: dict[str, TensorInfo] = {}
    for name, (ggml_type, shape, offset, n_bytes) in listed.items():
        field = f"tensor {shown(name)}"
        if offset % alignment:
            raise cursor.error(f"offset of {field}", f"a multiple of {alignment}", str(offset), DAMAGED)
        start = data_start + offset
        if start + n_bytes > size:
            raise cursor.error(field, f"{n_bytes} bytes of data at {start}", f"a file of {size} bytes", DAMAGED)
        tensors[name] = TensorInfo(name, ggml_type, shape, start, n_bytes, shard)
    _check_disjoint(cursor, tensors)
    return tensors


def _read_info(cursor: Cursor, index: int) -> tuple[str, _Listed]:
    cursor.charge(_OBJECT_BYTES, f"tensor {index}")
    name = cursor.name(f"name of tensor {index}")
    field = f"tensor {shown(name)}"
    n_dims = cursor.u32(f"dimensions of {field}")
    if n_dims > _MAX_DIMS:
        raise cursor.error(f"dimensions of {field}", f"at most {_MAX_DIMS}", str(n_dims), DAMAGED)
    ne = cursor.u64s(n_dims, f"sizes of {field}")
    code = cursor.u32(f"type of {field}")
    if code not in GGML_TYPES:
        hint = "It was made for a newer version: update, or get the model in another quantisation"
        if code in _DROPPED_TYPES:
            hint = f"{_DROPPED_TYPES[code]} is a layout that ggml has dropped: get the model in another quantisation"
        raise cursor.error(f"type of {field}", "a known ggml type", str(code), hint)
    ggml_type = GGML_TYPES[code]
    n_columns = ne[0] if ne else 1
    if n_columns % ggml_type.block_size:
        expected = f"rows of a multiple of {ggml_type.block_size}, the block size of {ggml_type.name}"
        raise cursor.error(f"sizes of {field}", expected, f"rows of {n_columns}", DAMAGED)
    n_bytes = math.prod(ne) // ggml_type.block_size * ggml_type.type_size
    return name, (code, ne[::-1], cursor.u64(f"offset of {field}"), n_bytes)


def _check_disjoint(cursor: Cursor, tensors: dict[str, TensorInfo]) -> None:
    by_place = sorted((t for t in tensors.values() if t.n_bytes), key=lambda t: t.offset)
    for before, after in pairwise(by_place):
        end = before.offset + before.n_bytes
        if end > after.offset:
            expected = f"data after the end of {shown(before.name)} at {end}"
            raise cursor.error(f"offset of tensor {shown(after.name)}", expected, f"data at {after.offset}", DAMAGED)
