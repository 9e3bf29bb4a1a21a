"""Keys that are pressed while the program works are not echoed into its output; the next prompt still gets them."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_echo() -> Iterator[None]:
    """Inside, this terminal does not show what is typed: even ^C would move the cursor away from the answer.

    Nothing happens on Windows; where stdin or stdout is no terminal, for then it may be another program's, as in
    `chenxing run … | less`; and in the background, where a process that touches the terminal is stopped.
    """
    if os.name != "posix" or not _is_ours():
        yield
        return
    import termios

    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    try:
        termios.tcsetattr(fd, termios.TCSADRAIN, quiet)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _is_ours() -> bool:
    if sys.stdin is None or sys.stdout is None or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
