"""Which streams get colours."""

from typing import TYPE_CHECKING, TextIO

from chenxing.config import settings

if TYPE_CHECKING:
    from rich.console import Console


def console_of(stream: TextIO) -> "Console | None":
    """rich's console; None where text is to be plain: no terminal, one that can do no more, or NO_COLOR is set.

    rich is imported for a terminal alone: a pipe does not wait for it.
    """
    if not stream.isatty() or settings().no_color:
        return None
    from rich.console import Console

    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    return None if console.is_dumb_terminal else console
