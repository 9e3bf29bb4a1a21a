"""Ctrl-C at any moment of a program's life: 130 for the shell, and no word of Python's."""

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one child process")

# sends the signal to itself when it imports a module, or when the interpreter ends
PROGRAM = """
import atexit, os, signal, sys
signal.signal(signal.SIGINT, signal.{handler})  # a background job's child has it ignored
moment = {moment!r}
def press_ctrl_c(event="import", args=("the end",)):
    if event == "import" and args[0] == moment:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(press_ctrl_c)
atexit.register(press_ctrl_c)
from chenxing.__main__ import main
sys.exit(main())
"""
MOMENTS = ["chenxing.cli", "argparse", "chenxing.terminal.tools", "chenxing.gguf", "numpy", "datetime", "the end"]


def interrupted(moment: str, handler: str = "default_int_handler") -> subprocess.CompletedProcess:
    code = PROGRAM.format(moment=moment, handler=handler)
    command = [sys.executable, "-c", code, "tokenize", "no/such/model"]
    return subprocess.run(command, input=b"a", capture_output=True, timeout=60)


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_is_130_and_quiet(moment: str):
    done = interrupted(moment)
    said = b"chenxing: no/such/model: " if moment == "the end" else b""
    assert done.returncode in (-signal.SIGINT, 130)  # a shell says 130 for both
    assert done.stderr.startswith(said) and done.stderr.count(b"\n") == bool(said) and done.stdout == b""


@pytest.mark.parametrize("moment", ["chenxing.cli", "numpy"])
def test_who_started_it_may_have_ctrl_c_ignored(moment: str):
    done = interrupted(moment, "SIG_IGN")
    assert done.returncode == 1 and done.stderr.startswith(b"chenxing: no/such/model: ")
