"""Keys pressed while an answer streams are not echoed into it; the next prompt still gets them."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_echo() -> Iterator[None]:
    """Inside, this terminal does not show what is typed: even ^C would move the cursor away from the answer.

    Nothing happens on Windows, without a terminal as stdin, and in the background, where a process that touches the
    terminal would be stopped.
    """
    if os.name != "posix" or sys.stdin is None or not sys.stdin.isatty():
        yield
        return
    import termios

    fd = sys.stdin.fileno()
    if os.tcgetpgrp(fd) != os.getpgrp():
        yield
        return
    before = termios.tcgetattr(fd)
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    try:
        termios.tcsetattr(fd, termios.TCSADRAIN, quiet)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
