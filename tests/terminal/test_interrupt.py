import ctypes
import os
import signal
import socket
import sys
import threading

import pytest

from chenxing.terminal.interrupt import cancel_on_interrupt, pythons_own_interrupt


def test_the_first_interrupt_cancels_and_the_second_raises() -> None:
    cancelled = []
    with pytest.raises(KeyboardInterrupt):
        with cancel_on_interrupt(lambda: cancelled.append(True)):
            signal.raise_signal(signal.SIGINT)
            assert cancelled
            signal.raise_signal(signal.SIGINT)


def test_it_cancels_while_the_main_thread_is_in_native_code() -> None:
    """Where Python calls no handler: here it waits for a byte that `cancel` alone writes in time."""
    end, start = os.pipe()
    libc = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    read = libc._read if sys.platform == "win32" else libc.read
    is_done = threading.Event()

    def interrupt() -> None:
        signal.raise_signal(signal.SIGINT)
        if not is_done.wait(30):
            os.write(start, b"-")  # too late

    byte = ctypes.create_string_buffer(1)
    with cancel_on_interrupt(lambda: os.write(start, b"+") and None):
        thread = threading.Thread(target=interrupt)
        thread.start()
        read(end, byte, 1)
        is_done.set()
        thread.join()
    assert byte.raw == b"+"
    os.close(start)
    os.close(end)


def test_whoever_was_told_of_signals_before_is_told_again() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        before = signal.set_wakeup_fd(theirs.fileno())
        try:
            with cancel_on_interrupt(lambda: None):
                signal.raise_signal(signal.SIGINT)
            assert signal.set_wakeup_fd(before) == theirs.fileno()
        finally:
            signal.set_wakeup_fd(before)


def test_the_previous_handler_is_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with cancel_on_interrupt(lambda: None):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


def test_it_does_nothing_in_another_thread() -> None:
    before, seen = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        with cancel_on_interrupt(lambda: None):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize(
    ("before", "inside"),
    [(lambda _number, _frame: None, signal.default_int_handler), (signal.SIG_IGN, signal.SIG_IGN)],
)
def test_asyncio_finds_the_handler_that_it_expects(before, inside) -> None:
    original = signal.signal(signal.SIGINT, before)
    try:
        with pythons_own_interrupt():
            assert signal.getsignal(signal.SIGINT) is inside
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, original)
