import os
import sys

import pytest

from chenxing.terminal.echo import without_echo


@pytest.mark.skipif(os.name != "posix", reason="Windows has no terminal attributes")
def test_echo_is_off_inside_and_back_afterwards(monkeypatch) -> None:
    import pty
    import termios

    master, slave = pty.openpty()

    def echoes() -> bool:
        return bool(termios.tcgetattr(slave)[3] & termios.ECHO)

    with open(slave, "rb", closefd=False) as stdin, open(slave, "wb", buffering=0, closefd=False) as stdout:
        monkeypatch.setattr(sys, "stdin", stdin)
        monkeypatch.setattr(sys, "stdout", stdout)
        monkeypatch.setattr(os, "tcgetpgrp", lambda _fd: os.getpgrp())  # a terminal in whose foreground we are
        assert echoes()
        with pytest.raises(RuntimeError):
            with without_echo():
                assert not echoes()
                raise RuntimeError
        assert echoes()
        monkeypatch.setattr(os, "tcgetpgrp", lambda _fd: os.getpgrp() + 1)  # in the background
        with without_echo():
            assert echoes()
        monkeypatch.undo()  # with pytest's own stdout, which is no terminal
        with without_echo():
            assert echoes()
    os.close(master)
    os.close(slave)


def test_without_a_terminal_nothing_happens(monkeypatch) -> None:
    for stdin in (None, open(os.devnull)):  # noqa: SIM115
        monkeypatch.setattr(sys, "stdin", stdin)
        with without_echo():
            pass
