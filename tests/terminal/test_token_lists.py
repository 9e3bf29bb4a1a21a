import io

import pytest

from chenxing.errors import ChenxingError
from chenxing.terminal.token_lists import read_id_lists, read_json_lines


def lines(data: bytes) -> list[bytes]:
    return list(read_json_lines(io.BytesIO(data)))


def lists(data: bytes, n_vocab: int = 100) -> list[list[int]]:
    return list(read_id_lists(io.BytesIO(data), n_vocab))


def test_json_strings_become_utf8() -> None:
    assert lines(b'"a\\nb"\n\n"\\u65e5"\n"\xe6\x97\xa5"') == [b"a\nb", "日".encode(), "日".encode()]


def test_bytes_that_are_no_text_travel_as_lone_low_surrogates() -> None:
    assert lines(b'"a\\udcffb"') == [b"a\xffb"]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b'"a"\n3\n', "line 2: expected a JSON string, found 3"),
        (b"hello\n", "line 1: expected a JSON string, found hello"),
        (b'"\\ud800"\n', "line 1: expected paired surrogates, found U+D800 alone"),
        (b"[" * 100_000, "line 1: expected a JSON string"),
    ],
)
def test_a_line_that_is_no_string_is_named(data: bytes, complaint: str) -> None:
    with pytest.raises(ChenxingError) as caught:
        lines(data)
    assert complaint in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"[1, 2, 3]", [[1, 2, 3]]),
        (b"[1]\n[]\n\n[99, 0]\n", [[1], [], [99, 0]]),
        (b"[\n  1,\n  2\n]\n", [[1, 2]]),
        (b"\n[1]\n", [[1]]),
        (b"", []),
    ],
)
def test_lists(data: bytes, expected: list[list[int]]) -> None:
    assert lists(data) == expected


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"[1]\n[100]", "line 2: expected ids from 0 to 99, found 100"),
        (b"[-1]", "line 1: expected ids from 0 to 99, found -1"),
        (b"[1.5]", "line 1: expected token ids, found 1.5"),
        (b"[true]", "line 1: expected token ids, found true"),
        (b'{"a": 1}', 'line 1: expected a JSON list of token ids, found {"a": 1}'),
        (b"1 2 3", "expected a JSON list of token ids, found 1 2 3"),
    ],
)
def test_what_is_no_list_of_ids_is_named(data: bytes, complaint: str) -> None:
    with pytest.raises(ChenxingError) as caught:
        lists(data)
    assert complaint in str(caught.value)


def test_lines_are_answered_one_by_one() -> None:
    """A program may write one line, read the answer, and go on; so no line may wait for the next one."""
    read_ahead = []

    class Source:
        def readline(self) -> bytes:
            return next(self)

        def __iter__(self):
            return self

        def __next__(self) -> bytes:
            read_ahead.append(None)
            if len(read_ahead) > 3:
                raise StopIteration
            return b"[%d]\n" % len(read_ahead)

    for number, ids in enumerate(read_id_lists(Source(), 100), 1):
        assert ids == [number] and len(read_ahead) == number
