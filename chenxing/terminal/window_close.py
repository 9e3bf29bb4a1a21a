"""Closing the console window ends the program as Ctrl-C does, so that what it computed reaches the disk."""

import _thread
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_WINDOW_EVENTS = (2, 5, 6)  # close, log-off, shutdown. Source  Microsoft, SetConsoleCtrlHandler
_SECONDS = 10.0


@contextmanager
def stop_when_window_closes() -> Iterator[None]:
    """On Windows. Elsewhere terminals send SIGHUP, which the server knows."""
    if sys.platform != "win32":
        yield
        return
    import ctypes

    done = threading.Event()

    def handler(event: int) -> bool:
        if event not in _WINDOW_EVENTS:
            return False
        _thread.interrupt_main(signal.SIGTERM)
        done.wait(_SECONDS)  # Windows ends the process when this returns
        return True

    callback = ctypes.WINFUNCTYPE(ctypes.c_int, ctypes.c_uint32)(handler)
    ctypes.windll.kernel32.SetConsoleCtrlHandler(callback, 1)
    try:
        yield
    finally:
        ctypes.windll.kernel32.SetConsoleCtrlHandler(callback, 0)
        done.set()
