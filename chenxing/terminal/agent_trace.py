"""Styled lines and pieces of lines, plain where there is no terminal for styles."""

from typing import TextIO

from chenxing.terminal.console import console_of


class Trace:
    """stream  plain where console_of has none for it"""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = console_of(stream)

    def line(self, text: str, style: str = "") -> None:
        self.write(text + "\n", style)

    def write(self, text: str, style: str = "") -> None:
        """A piece of a line. style: one of rich's."""
        if self._console is None:
            self._stream.write(text)
            self._stream.flush()
        else:
            self._console.print(text, style=style, end="", soft_wrap=True)
