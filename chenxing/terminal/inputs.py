"""Where the prompt of a one-shot run comes from: -p TEXT, -f FILE, and what is piped into stdin."""

import os
import sys
import threading
from pathlib import Path
from typing import BinaryIO

from chenxing.errors import ChenxingError

_FIRST_BYTE_S = 5.0


class PipedInput:
    """Reads a pipe to its end in the background, so that a model loads meanwhile.

    Whoever starts this program may leave a pipe open that nobody ever writes to; so beside a prompt from the command
    line a pipe is given up after `first_byte_s` without a byte. `read` of a prompt that has no other source waits.
    """

    def __init__(self, fd: int, *, first_byte_s: float = _FIRST_BYTE_S) -> None:
        self._fd, self._first_byte_s = fd, first_byte_s
        self._chunks: list[bytes] = []
        self._error: OSError | None = None
        self._started = threading.Event()  # a byte, the end or an error has come
        self._thread = threading.Thread(target=self._pump, name="stdin", daemon=True)
        self._thread.start()

    def _pump(self) -> None:
        # os.read and not sys.stdin: a thread that holds the lock of a stream blocks the end of the interpreter
        try:
            while chunk := os.read(self._fd, 1 << 16):
                self._chunks.append(chunk)
                self._started.set()
        except OSError as error:
            self._error = error
        self._started.set()

    def read(self) -> bytes:
        """Everything up to the end of the pipe. Raises ChenxingError when it cannot be read."""
        while self._thread.is_alive():
            self._thread.join(0.1)  # in slices: on Windows a join without end cannot be interrupted
        if self._error:
            raise ChenxingError(f"standard input cannot be read: {self._error.strerror}")
        return b"".join(self._chunks)

    def read_if_any(self) -> bytes | None:
        """The same, or None when no byte came in time."""
        return self.read() if self._started.wait(self._first_byte_s) else None


def standard_input() -> BinaryIO:
    """The bytes of stdin. Raises ChenxingError where the program was started without one."""
    if sys.stdin is None:
        raise ChenxingError("standard input is closed: expected the data to work on")
    return sys.stdin.buffer


def piped_input() -> PipedInput | None:
    """This process's stdin if something is piped into it; None on a terminal or without a stdin."""
    try:
        return None if sys.stdin is None or sys.stdin.isatty() else PipedInput(sys.stdin.fileno())
    except (OSError, ValueError):  # a stdin that is closed or is no file
        return None


def read_text_file(path: str) -> str:
    """The text of `path` as UTF-8 without its last line break, as llama.cpp's -f. Raises ChenxingError."""
    try:
        data = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise ChenxingError(f"{path}: {error.strerror}: expected a readable text file") from error
    return decode(data, path)


def decode(data: bytes, source: str) -> str:
    """`data` as text without its last line break; bytes that are no UTF-8 become U+FFFD and are reported on stderr."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        _say(f"{source}: byte {error.start} is not UTF-8; such bytes are read as U+FFFD")
        text = data.decode("utf-8", "replace")
    return text.removesuffix("\r\n" if text.endswith("\r\n") else "\n")


def joined_prompt(prompt: str | None, file_text: str | None, piped: PipedInput | None, *, wait: bool) -> str | None:
    """The whole prompt, or None if there is none: piped text, then the file, then -p, with blank lines between.

    The order is that of `llm` and Ollama: what is talked about comes before the question. `wait` says that the pipe was
    asked for (`-f -`, or nothing else is given), so that it is read however late its text comes.
    """
    parts = []
    if piped:
        parts.append(decode(piped.read(), "standard input") if wait else _piped_beside(piped))
    parts += [part for part in (file_text, prompt) if part is not None]
    return "\n\n".join(part for part in parts if part) if parts else None


def _piped_beside(piped: PipedInput) -> str:
    data = piped.read_if_any()
    if data is None:
        _say("nothing came from standard input, going on without it (</dev/null skips the wait)")
    return decode(data or b"", "standard input")


def _say(text: str) -> None:
    print(f"chenxing: {text}", file=sys.stderr)
