"""Keys that were pressed before a question was asked are no answer to it."""

import os
import sys


def forget_typed() -> None:
    """Drop what was typed on this terminal and not read yet."""
    if os.name == "posix":
        import termios

        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        return
    import msvcrt

    while msvcrt.kbhit():  # type: ignore[attr-defined]  # Windows alone has it
        msvcrt.getwch()  # type: ignore[attr-defined]
