"""A thread that runs the engine while there is something to do, and sleeps otherwise."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from chenxing.engine.engine import Engine

T = TypeVar("T")


class EngineThread:
    """Drives an engine from its making until `close`; nobody else may call the engine then, but for `submit`.

    Listeners of requests are called in this thread: they hand events over and return.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine, self._is_closing = engine, False
        engine.is_driven = True
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], T]) -> T:
        """What function returns or raises, called in the engine's thread between two steps."""
        assert self._thread.is_alive()
        future: Future[T] = Future()
        self._engine.post(lambda: _answer(future, function))
        return future.result()

    def close(self) -> None:
        """End all requests as cancelled, and the thread. The engine is left for others to call."""
        assert self._thread.is_alive()
        self._engine.post(self._close)
        self._engine.stop()
        self._thread.join()
        self._engine.is_driven = False

    def _close(self) -> None:
        self._is_closing = True

    def _run(self) -> None:
        while not self._is_closing:
            if self._engine.is_idle:
                self._engine.wait()
                continue
            try:
                self._engine.step()
            except Exception as error:
                self._engine.fail(error)
        self._engine.cancel_all()


def _answer(future: Future[T], function: Callable[[], T]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)
