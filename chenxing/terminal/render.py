"""What a person sees: streamed Markdown and dim notes on a terminal, plain text everywhere else."""

from collections.abc import Callable
from typing import Protocol, TextIO

from chenxing.terminal.console import console_of


class Writer(Protocol):
    """Where an answer is shown while it comes: `write` for every piece, then `finish` once."""

    def write(self, piece: str) -> None: ...
    def finish(self) -> None: ...


class PlainWriter:
    """The text as it comes, then a line break if it has none at its end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._last = stream, "\n"

    def write(self, piece: str) -> None:
        self._stream.write(piece)
        self._stream.flush()
        self._last = piece[-1:] or self._last

    def finish(self) -> None:
        if self._last != "\n":
            self._stream.write("\n")
        self._stream.flush()


class Screen:
    """One output stream, plain where console_of has none for it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = console_of(stream)

    def writer(self, *, markdown: bool, reasoning_opened: Callable[[], bool]) -> Writer:
        """For one answer; `markdown` False says that it is a text of any other kind."""
        if self._console is None or not markdown:
            return PlainWriter(self._stream)
        from chenxing.terminal.markdown import MarkdownWriter

        return MarkdownWriter(self._console, reasoning_opened=reasoning_opened())

    def note(self, text: str) -> None:
        """A line about the session, not of it."""
        self._print(text, "dim")

    def error(self, text: str) -> None:
        self._print(text, "red")

    def _print(self, text: str, style: str) -> None:
        if self._console is None:
            self._stream.write(text + "\n")
            self._stream.flush()
        else:
            self._console.print(text, style=style, soft_wrap=True)
