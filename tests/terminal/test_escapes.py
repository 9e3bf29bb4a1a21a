import pytest

from chenxing.terminal.escapes import unescape, unescape_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"a\nb\tc\rd", "a\nb\tc\rd"),
        (r"\"quoted\" \'too\'", "\"quoted\" 'too'"),
        (r"back\\nslash", r"back\nslash"),
        (r"\x41\x4a", "AJ"),
        (r"\xe6\x97\xa5", "日"),
        (r"\xff", "\ufffd"),
        (r"\x4", r"\x4"),
        (r"\xzz \q \日", r"\xzz \q \日"),
        ("ends with \\", "ends with \\"),
        ("晨星", "晨星"),
    ],
)
def test_escapes(text: str, expected: str) -> None:
    assert unescape(text) == expected


def test_bytes_stay_bytes() -> None:
    assert unescape_bytes(rb"\xff\n" + b"\xfe") == b"\xff\n\xfe"


def test_bytes_of_an_odd_command_line_become_replacement_characters() -> None:
    assert unescape("a\udcffb") == "a\ufffdb"
