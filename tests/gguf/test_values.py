import struct
from pathlib import Path

import numpy as np
import pytest
from handmade import ARRAY, STRING, array, pair, string

from chenxing.errors import ModelFileError
from chenxing.gguf.cursor import Cursor
from chenxing.gguf.strings import StringArray
from chenxing.gguf.values import read_metadata

# code: (struct code, value, dtype of its arrays)
NUMBERS = {
    0: ("B", 200, np.uint8),
    1: ("b", -100, np.int8),
    2: ("H", 60_000, np.uint16),
    3: ("h", -30_000, np.int16),
    4: ("I", 4_000_000_000, np.uint32),
    5: ("i", -2_000_000_000, np.int32),
    6: ("f", 0.5, np.float32),
    7: ("?", True, np.bool_),
    10: ("Q", 2**64 - 1, np.uint64),
    11: ("q", -(2**63), np.int64),
    12: ("d", 0.1, np.float64),
}


def read(*pairs: bytes) -> dict:
    return read_metadata(Cursor(Path("m.gguf"), memoryview(b"".join(pairs))), len(pairs))


@pytest.mark.parametrize("code", NUMBERS)
def test_numbers(code):
    layout, value, dtype = NUMBERS[code]
    packed = struct.pack("<" + layout, value)
    metadata = read(pair(b"one", code, packed), pair(b"many", ARRAY, array(code, 3, packed * 3)))
    assert metadata["one"] == value
    assert type(metadata["one"]) is type(value)
    assert metadata["many"].dtype == dtype
    assert metadata["many"].tolist() == [value] * 3
    assert metadata["many"].flags.aligned
    assert not metadata["many"].flags.writeable


@pytest.mark.parametrize("code", [*NUMBERS, STRING, ARRAY])
def test_empty_arrays(code):
    assert len(read(pair(b"none", ARRAY, array(code, 0, b"")))["none"]) == 0


def test_any_bool_that_is_not_zero_is_true():
    metadata = read(pair(b"a", 7, b"\x02"), pair(b"b", ARRAY, array(7, 3, b"\x00\x02\xff")))
    assert metadata["a"] is True
    assert metadata["b"].view(np.uint8).tolist() == [0, 1, 1]


def test_strings():
    metadata = read(pair(b"one", STRING, string("晨星".encode())), pair(b"many", ARRAY, array(STRING, 1, string(b"a"))))
    assert metadata["one"] == "晨星"
    assert isinstance(metadata["many"], StringArray)
    assert metadata["many"].to_list() == ["a"]


def test_arrays_of_arrays():
    inner = array(0, 2, b"\x01\x02") + array(STRING, 1, string(b"x")) + array(ARRAY, 1, array(7, 1, b"\1"))
    numbers, strings, [bools] = read(pair(b"nested", ARRAY, array(ARRAY, 3, inner)))["nested"]
    assert (numbers.tolist(), strings.to_list(), bools.tolist()) == ([1, 2], ["x"], [True])


def test_depth_is_bounded():
    value = array(0, 1, b"\x07")
    for _ in range(7):
        value = array(ARRAY, 1, value)
    nested = read(pair(b"deep", ARRAY, value))["deep"]
    for _ in range(7):
        (nested,) = nested
    assert nested.tolist() == [7]
    with pytest.raises(ModelFileError, match="expected arrays at most 8 deep"):
        read(pair(b"deep", ARRAY, array(ARRAY, 1, value)))


def test_order_is_kept():
    assert list(read(*(pair(key, 0, b"\0") for key in (b"c", b"a", b"b")))) == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([pair(b"a", 0, b"\1"), pair(b"a", 0, b"\1")], "metadata key 'a': expected one value, found a second one"),
        ([pair(b"a", 13, b"\1")], "type of metadata key 'a': expected a GGUF type from 0 to 12, found 13"),
        ([pair(b"a", ARRAY, array(13, 0, b""))], "type of metadata key 'a': expected a GGUF type from"),
        ([pair(b"a", 4, b"\1")], "metadata key 'a': expected 4 bytes at 13, found 1 bytes up to the file's end"),
        ([pair(b"a", ARRAY, array(4, 2, bytes(7)))], "count of metadata key 'a': expected at most 1 items"),
        ([pair(b"a", ARRAY, array(ARRAY, 2, bytes(23)))], "count of metadata key 'a': expected at most 1 items"),
        ([pair(b"a", ARRAY, array(STRING, 2, bytes(15)))], "count of metadata key 'a': expected at most 1 items"),
        ([pair(b"a", ARRAY, array(0, 2**64 - 1, b""))], "count of metadata key 'a': expected at most 0 items"),
        ([pair(b"a", STRING, struct.pack("<Q", 2**63))], "metadata key 'a': expected 9223372036854775808 bytes"),
        ([pair(b"\xff", 0, b"\1")], "metadata key 0: expected a name in UTF-8"),
        ([pair(b"a\x1b[2J\n" + b"x" * 999, 13, b"")], r"metadata key 'a\x1b[2J\nxxx"),
    ],
)  # fmt: skip
def test_what_is_refused(pairs, message):
    with pytest.raises(ModelFileError) as e:
        read(*pairs)
    assert message in str(e.value)
    assert "\n" not in str(e.value)
    assert len(str(e.value)) < 300
