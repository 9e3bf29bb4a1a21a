import signal
import threading

import pytest

from chenxing.terminal.interrupt import cancel_on_interrupt, pythons_own_interrupt


def test_the_first_interrupt_cancels_and_the_second_raises() -> None:
    cancelled = []
    with pytest.raises(KeyboardInterrupt):
        with cancel_on_interrupt(lambda: cancelled.append(True)):
            signal.raise_signal(signal.SIGINT)
            assert cancelled == [True]
            signal.raise_signal(signal.SIGINT)
    assert cancelled == [True]


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
