"""Whether the desktop program was opened from a file manager, and a window for it to talk in."""

import shutil
import subprocess
import sys

from chenxing.config import settings

_TERMINALS = {  # program: what stands before the command
    "x-terminal-emulator": "-e",
    "gnome-terminal": "--",
    "konsole": "-e",
    "xfce4-terminal": "-x",
    "xterm": "-e",
}


def was_double_clicked() -> bool:
    """On Windows: the console is for us alone. Elsewhere: there is a desktop, and no terminal.

    macOS opens a terminal for a program by itself; there the launcher beside it names the command.
    """
    if sys.platform == "win32":
        return _consoles_processes() == 1
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return settings().has_desktop and not any(stream is not None and stream.isatty() for stream in streams)


def _consoles_processes() -> int:
    """How many processes share this console. Source  Microsoft, GetConsoleProcessList"""
    import ctypes

    ids = (ctypes.c_uint32 * 2)()
    return ctypes.windll.kernel32.GetConsoleProcessList(ids, 2)  # type: ignore[attr-defined, unused-ignore]


def open_terminal(command: list[str]) -> bool:
    """Run the command in a window of its own, which stays open when it fails. -> False if there is no such program."""
    for name, before in _TERMINALS.items():
        if program := shutil.which(name):
            waiting = ["sh", "-c", '"$@" || read -r _', "sh", *command]
            subprocess.Popen([program, before, *waiting], start_new_session=True)
            return True
    return False
