"""What counts as a double click, and the window that is opened for it."""

import io
import os
import sys
import time
from types import SimpleNamespace

import pytest

from chenxing.terminal import double_click


@pytest.mark.skipif(sys.platform == "win32", reason="there the console tells")
@pytest.mark.parametrize(
    ("desktop", "terminals", "expected"),
    [(True, (), True), (True, ("stdin",), False), (True, ("stderr",), False), (False, (), False)],
)
def test_a_desktop_and_no_terminal(desktop, terminals, expected, monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        stream = SimpleNamespace(isatty=lambda name=name: name in terminals)
        monkeypatch.setattr(sys, name, stream if name != "stdout" else io.StringIO())
    monkeypatch.setattr(double_click, "settings", lambda: SimpleNamespace(has_desktop=desktop))
    assert double_click.was_double_clicked() is expected


@pytest.mark.skipif(sys.platform == "win32", reason="a script of the shell stands in for the terminal")
def test_the_command_runs_in_a_terminal(tmp_path, monkeypatch):
    terminal = tmp_path / "xterm"
    terminal.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    terminal.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin:/usr/bin")
    monkeypatch.setattr(double_click, "_TERMINALS", {"no-such-terminal": "-e", "xterm": "-e"})
    done = tmp_path / "a b"
    assert double_click.open_terminal(["touch", str(done)])
    deadline = time.monotonic() + 20
    while not done.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert done.exists()


def test_no_terminal_to_be_had(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not double_click.open_terminal(["true"])
