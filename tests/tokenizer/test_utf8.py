"""Invalid UTF-8 as llama.cpp reads it."""

import pytest

from chenxing.tokenizer import utf8


@pytest.mark.parametrize(("data", "text"), [
    (b"caf\xc3\xa9 \xf0\x9f\x8c\x9f", "café 🌟"),
    (b"\xff\x80a", "\ufffd\ufffda"),
    (b"\xe2\x96", "\ufffd\ufffd"),
    (b"\xe2\x96x", "\ufffd\ufffdx"),
    (b"\xc3", "\ufffd"),
    (b"\xc0\x80", "\0"),
    (b"\xe0\x80\xaf\xf0\x80\x80\xaf", "//"),
    (b"\xed\xa0\x80", "\ud800"),
    (b"\xf4\x90\x80\x80x", "\ufffdx"),
    (b"\xf8\x88\x80\x80\x80", "\ufffd" * 5),
])  # fmt: skip
def test_decode(data: bytes, text: str) -> None:
    assert utf8.decode(data) == text


def test_decode_valid_equals_no_character() -> None:
    assert utf8.decode_valid(b"a\xe0\x80\xafb\xed\xa0\x80\xff") == "a\udc80b\udc80\udc80"


def test_encode() -> None:
    assert utf8.encode("é\udcff🌟") == b"\xc3\xa9\xff\xf0\x9f\x8c\x9f"
    assert utf8.encode("\ud83dx\udcc3") == b"\xef\xbf\xbdx\xc3"
    assert utf8.to_bytes("\ud800") == b"\xed\xa0\x80"


def test_split_characters_goes_by_first_bytes() -> None:
    assert utf8.split_characters(b"a\xc3\xa9\xe6ab\x80\xf0\x9f") == [b"a", b"\xc3\xa9", b"\xe6ab", b"\x80", b"\xf0\x9f"]


def test_first_character() -> None:
    assert utf8.first_character(b"x\xc3\xa9", 1) == (b"\xc3\xa9", 2)
    assert utf8.first_character(b"\xa9", 0) == (b"\xef\xbf\xbd", 1)
