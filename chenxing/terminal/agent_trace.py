"""Styled lines and pieces of lines, plain where there is no terminal for styles."""

from typing import TextIO

from chenxing.config import settings


class Trace:
    """stream  plain if it is no terminal, if NO_COLOR is set, or if the terminal can do no more"""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = None
        if stream.isatty() and not settings().no_color:
            from rich.console import Console

            console = Console(file=stream, highlight=False, markup=False, emoji=False)
            self._console = None if console.is_dumb_terminal else console

    def line(self, text: str, style: str = "") -> None:
        self.write(text + "\n", style)

    def write(self, text: str, style: str = "") -> None:
        """A piece of a line. style: one of rich's."""
        if self._console is None:
            self._stream.write(text)
            self._stream.flush()
        else:
            self._console.print(text, style=style, end="", soft_wrap=True)
