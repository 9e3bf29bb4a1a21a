import os
import threading
from pathlib import Path

import pytest

from chenxing.errors import ChenxingError
from chenxing.terminal.inputs import PipedInput, joined_prompt, read_text_file


def piped(data: bytes, **kwargs: float) -> PipedInput:
    read_end, write_end = os.pipe()
    os.write(write_end, data)
    os.close(write_end)
    return PipedInput(read_end, **kwargs)


def test_the_parts_stand_in_the_order_pipe_file_prompt() -> None:
    assert (
        joined_prompt("Question?", "file text", piped(b"pipe text\n"), wait=False)
        == "pipe text\n\nfile text\n\nQuestion?"
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"Hi\n", "Hi"), (b"Hi\n\n", "Hi\n"), (b"Hi\r\n", "Hi"), (b"Hi", "Hi"), (b"  Hi ", "  Hi "), (b"", "")],
)
def test_only_the_last_line_break_is_taken_away(data: bytes, expected: str) -> None:
    assert joined_prompt(None, None, piped(data), wait=True) == expected


def test_without_any_source_there_is_no_prompt() -> None:
    assert joined_prompt(None, None, None, wait=True) is None


def test_an_empty_pipe_adds_nothing_to_a_prompt() -> None:
    assert joined_prompt("Hi", None, piped(b""), wait=False) == "Hi"


def test_a_pipe_that_stays_open_and_silent_is_given_up_beside_a_prompt(capsys) -> None:
    read_end, write_end = os.pipe()
    assert joined_prompt("Hi", None, PipedInput(read_end, first_byte_s=0.05), wait=False) == "Hi"
    assert "nothing came from standard input" in capsys.readouterr().err
    os.close(write_end)


def test_a_slow_pipe_is_read_to_its_end_once_it_has_begun() -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, b"one ")

    def write_late() -> None:
        os.write(write_end, b"two")
        os.close(write_end)

    timer = threading.Timer(0.3, write_late)
    timer.start()
    assert joined_prompt("Hi", None, PipedInput(read_end, first_byte_s=0.05), wait=False) == "one two\n\nHi"
    timer.join()


def test_a_pipe_that_was_asked_for_is_waited_for() -> None:
    read_end, write_end = os.pipe()
    timer = threading.Timer(0.3, lambda: (os.write(write_end, b"late"), os.close(write_end)))
    timer.start()
    assert joined_prompt(None, None, PipedInput(read_end, first_byte_s=0.05), wait=True) == "late"
    timer.join()


def test_bytes_that_are_no_text_are_reported(capsys) -> None:
    assert joined_prompt(None, None, piped(b"caf\xe9"), wait=True) == "caf\ufffd"
    assert "standard input: byte 3 is not UTF-8" in capsys.readouterr().err


def test_a_replacement_character_in_the_text_itself_is_not_reported(capsys) -> None:
    assert joined_prompt(None, None, piped("\ufffd".encode()), wait=True) == "\ufffd"
    assert capsys.readouterr().err == ""


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ChenxingError, match=r"notes\.txt: No such file"):
        read_text_file(str(tmp_path / "notes.txt"))
