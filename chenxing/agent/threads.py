"""Blocking functions beside an event loop.

Their threads are daemons, so that a tool that never returns does not keep the program from ending, as the threads of
asyncio's own executor would.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[[], T]) -> T:
    """What function returns or raises. Who is cancelled meanwhile leaves it behind, running."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(error: BaseException | None, value: T | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)  # type: ignore[arg-type]  # T, since there is no error
        else:
            future.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        value: T | None = None
        try:
            value = function()
        except StopIteration as stop:  # which a future does not take
            error = RuntimeError(f"StopIteration: {stop}")
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is gone, and nobody waits
            loop.call_soon_threadsafe(settle, error, value)

    threading.Thread(target=run, name=getattr(function, "__name__", "node"), daemon=True).start()
    return await future
