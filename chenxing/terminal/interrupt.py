"""Ctrl-C while an answer streams stops the answer, not the program."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def cancel_on_interrupt(cancel: Callable[[], None]) -> Iterator[None]:
    """Inside, the first Ctrl-C calls `cancel` and the second raises KeyboardInterrupt, as any Ctrl-C does outside.

    A flag instead of an exception: an exception would come out of the middle of a model step. `cancel` may be called
    in another thread, and twice. Python takes signals in the main thread only; in any other one this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.getsignal(signal.SIGINT)

    def handler(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, previous)
        cancel()

    signal.signal(signal.SIGINT, handler)
    try:
        with _while_main_thread_computes(cancel):
            yield
    finally:
        signal.signal(signal.SIGINT, previous)


@contextmanager
def _while_main_thread_computes(cancel: Callable[[], None]) -> Iterator[None]:
    """Call it at once even if the main thread is in a model's step, and so cannot take signals: in a thread that waits
    for their numbers, which Python writes to a socket as they come."""
    ours, signals = socket.socketpair()
    signals.setblocking(False)
    before = signal.set_wakeup_fd(signals.fileno(), warn_on_full_buffer=False)

    def watch() -> None:
        while numbers := ours.recv(64):
            if signal.SIGINT in numbers:
                cancel()

    watcher = threading.Thread(target=watch, name="ctrl-c", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        signals.close()  # the watcher reads the end
        watcher.join()
        ours.close()


@contextmanager
def pythons_own_interrupt() -> Iterator[None]:
    """Inside, Ctrl-C is left to Python, if it raises at all: asyncio cancels its tasks then, and for no other handler.

    In another thread than the main one this does nothing.
    """
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(previous):
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
