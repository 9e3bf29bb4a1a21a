import random
import struct
from pathlib import Path

import numpy as np
import pytest
from handmade import string

from chenxing.errors import ModelFileError
from chenxing.gguf.cursor import Cursor
from chenxing.gguf.strings import StringArray, read_strings


def read(texts: list[bytes], before: bytes = b"", after: bytes = b"") -> StringArray:
    """The texts as an array with other bytes around it; checks that the cursor ends behind it."""
    data = before + b"".join(map(string, texts)) + after
    cursor = Cursor(Path("m.gguf"), memoryview(data))
    cursor.position = len(before)
    strings = read_strings(cursor, len(texts), "tokens")
    assert cursor.position == len(data) - len(after)
    return strings


def test_access():
    strings = read([b"a", "é".encode(), b"", b"\xff"], before=b"xyz", after=b"more")
    assert len(strings) == 4
    assert [strings[0], strings[1], strings[2], strings[3], strings[-1]] == ["a", "é", "", "\ufffd", "\ufffd"]
    assert strings.bytes(3) == strings.bytes(-1) == b"\xff"
    assert strings.to_bytes() == [b"a", "é".encode(), b"", b"\xff"]
    assert strings.to_list() == list(strings) == ["a", "é", "", "\ufffd"]
    for beyond in (4, -5):
        with pytest.raises(IndexError):
            strings.bytes(beyond)


def test_empty_array():
    strings = read([], after=b"more")
    assert (len(strings), strings.to_bytes(), strings.to_list()) == (0, [], [])


# What makes the bulk scan's guess wrong: empty strings, zero bytes in texts, whole lengths inside texts, long strings
TROUBLE = [b"", b"\0", b"\0" * 9, b"\0" * 300, struct.pack("<Q", 1) + b"x", struct.pack("<3Q", 8, 8, 0), b"long" * 100]


@pytest.mark.parametrize("n_trouble", [0, 1, 50, 20_000])
def test_any_strings_come_back(n_trouble):
    rng = random.Random(n_trouble)
    texts = [rng.randbytes(rng.randrange(1, 30)) for _ in range(20_000)]
    for i in rng.sample(range(len(texts)), n_trouble):
        texts[i] = rng.choice(TROUBLE)
    assert read(texts, before=b"odd", after=bytes(40)).to_bytes() == texts


@pytest.mark.parametrize("text", TROUBLE)
def test_arrays_of_nothing_but_trouble_come_back(text):
    assert read([text] * 6000).to_bytes() == [text] * 6000


def test_an_array_may_end_with_the_file():
    texts = [b"token%d" % i for i in range(5000)]
    assert read(texts).to_bytes() == texts


@pytest.mark.parametrize("n", [2, 1023, 5000])
@pytest.mark.parametrize(("cut", "named"), [(1, "string {} of"), (5, "string {} of"), (6, "length of string {} of")])
def test_a_cut_array_names_the_string_that_is_cut(n, cut, named):
    data = b"".join(string(b"token") for _ in range(n))[:-cut]
    with pytest.raises(ModelFileError) as e:
        read_strings(Cursor(Path("m.gguf"), memoryview(data)), n, "tokens")
    assert e.value.field == f"{named} tokens".format(n - 1)


def test_a_length_that_wraps_around_is_refused():
    data = string(b"a") * 10 + struct.pack("<Q", 2**64 - 8) + bytes(100)
    with pytest.raises(ModelFileError, match="string 10 of tokens: expected 18446744073709551608 bytes"):
        read_strings(Cursor(Path("m.gguf"), memoryview(data)), 12, "tokens")


def test_headers_are_places_in_raw():
    strings = read([b"ab", b"c"], before=b"12345")
    assert strings.headers.tolist() == [0, 10, 19]
    assert strings.headers.dtype == np.int64
    assert bytes(strings.raw) == string(b"ab") + string(b"c")
