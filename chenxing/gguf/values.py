"""Metadata values: the thirteen types of GGUF, read from a cursor.

Source  the GGUF specification (ggml, docs/gguf.md), section "File structure": gguf_metadata_value_type.
"""

from typing import Any

import numpy as np

from chenxing.gguf.cursor import DAMAGED, Cursor, shown
from chenxing.gguf.strings import read_strings

MIN_KEY_BYTES = 8 + 4 + 1  # an empty key, the type, one byte

_STRING, _ARRAY = 8, 9
_NUMBER_TYPES = {
    code: np.dtype(layout)
    for code, layout in {
        0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8",
    }.items()
}  # fmt: skip

_MAX_DEPTH = 8  # of arrays in arrays; no known model has any
_OBJECT_BYTES = 1024  # what a value and its key, or an array in an array, is charged beside its contents

_ARRAY_BYTES = 4 + 8  # item type and count: the least that an array takes in the file


def read_metadata(cursor: Cursor, n: int) -> dict[str, Any]:
    """The n key-value pairs at the cursor.

    Values are bool, int, float, str; 1-D arrays (own memory, read-only); StringArray; list for arrays of arrays.
    """
    metadata: dict[str, Any] = {}
    for i in range(n):
        key = cursor.name(f"metadata key {i}")
        field = f"metadata key {shown(key)}"
        if key in metadata:
            raise cursor.error(field, "one value", "a second one", DAMAGED)
        metadata[key] = _read_value(cursor, field)
    return metadata


def _read_value(cursor: Cursor, field: str) -> Any:
    cursor.charge(_OBJECT_BYTES, field)
    code = cursor.u32(f"type of {field}")
    if code == _STRING:
        return cursor.text(field)
    if code == _ARRAY:
        return _read_array(cursor, field, depth=1)
    return _read_numbers(cursor, 1, _number_type(cursor, code, field), field)[0].item()


def _read_array(cursor: Cursor, field: str, depth: int) -> Any:
    code = cursor.u32(f"item type of {field}")
    if code == _STRING:
        return read_strings(cursor, cursor.count(8, f"count of {field}"), field)
    if code == _ARRAY:
        if depth == _MAX_DEPTH:
            raise cursor.error(field, f"arrays at most {_MAX_DEPTH} deep", "a deeper one", DAMAGED)
        n = cursor.count(_ARRAY_BYTES, f"count of {field}")
        cursor.charge(n * _OBJECT_BYTES, field)
        return [_read_array(cursor, f"{field}[{i}]", depth + 1) for i in range(n)]
    number_type = _number_type(cursor, code, field)
    return _read_numbers(cursor, cursor.count(number_type.itemsize, f"count of {field}"), number_type, field)


def _number_type(cursor: Cursor, code: int, field: str) -> np.dtype:
    if code not in _NUMBER_TYPES:
        raise cursor.error(f"type of {field}", "a GGUF type from 0 to 12", str(code), DAMAGED)
    return _NUMBER_TYPES[code]


def _read_numbers(cursor: Cursor, n: int, number_type: np.dtype, field: str) -> np.ndarray:
    start = cursor.position
    cursor.charge(n * number_type.itemsize, field)
    cursor.take(n * number_type.itemsize, field)
    if number_type == np.bool_:
        numbers = np.ndarray((n,), np.uint8, cursor.data, start) != 0
    else:
        numbers = np.ndarray((n,), number_type, cursor.data, start).copy()  # the file does not align arrays
    numbers.flags.writeable = False
    return numbers
