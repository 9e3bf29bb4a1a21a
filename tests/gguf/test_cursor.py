import struct
from pathlib import Path

import pytest

from chenxing.errors import ModelFileError
from chenxing.gguf.cursor import HEADER_BUDGET_BYTES, Cursor, shown


def cursor(data: bytes) -> Cursor:
    return Cursor(Path("m.gguf"), memoryview(data))


def test_reads_advance():
    c = cursor(struct.pack("<IQ2Q", 7, 1 << 40, 5, 6) + struct.pack("<Q", 3) + b"abc")
    assert c.u32("a") == 7
    assert c.u64("b") == 1 << 40
    assert c.u64s(2, "c") == (5, 6)
    assert c.name("d") == "abc"
    assert c.position == len(c.data)


def test_a_read_past_the_end_names_file_field_and_both_sizes():
    c = cursor(b"\0" * 6)
    c.u32("version")
    with pytest.raises(ModelFileError, match=r"m\.gguf: tensor count: expected 8 bytes at 4, found 2 bytes up to") as e:
        c.u64("tensor count")
    assert (e.value.path, e.value.field) == (Path("m.gguf"), "tensor count")


def test_count_is_bounded_by_what_is_left():
    data = struct.pack("<Q", 3) + bytes(24)
    assert cursor(data).count(8, "n") == 3
    with pytest.raises(ModelFileError, match="n: expected at most 2 items in the 24 bytes left, found 3"):
        cursor(data).count(9, "n")


def test_charges_add_up_to_the_budget_and_no_further():
    c = cursor(b"")
    c.charge(HEADER_BUDGET_BYTES - 1, "a")
    c.charge(1, "b")
    with pytest.raises(ModelFileError, match="c: expected a header that fits 48 MiB"):
        c.charge(1, "c")


def test_names_are_strict_and_texts_lenient():
    data = struct.pack("<Q", 2) + b"a\xff"
    assert cursor(data).text("t") == "a\ufffd"
    with pytest.raises(ModelFileError, match="expected a name in UTF-8"):
        cursor(data).name("t")


def test_shown_fits_a_line():
    assert shown("blk.0.attn_q.weight") == "'blk.0.attn_q.weight'"
    assert shown("\x1b[2J\n") == "'\\x1b[2J\\n'"
    assert len(shown("x" * 10_000)) == 82
