"""From the engine's thread to the event loop: one wake-up for all that is said until the loop has time to listen."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Mailbox:
    """`post` is for any thread, as long as the loop lives; receivers are called in the loop's thread, in that order.

    A wake-up is a system call for whoever posts, and a round of the loop: a step of the engine that tells sixteen
    answers something needs one.

    Invariant: whenever something lies here, the loop has been called and has not come yet.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._letters: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._is_called = False

    def post(self, receive: Callable[[T], None], letter: T) -> None:
        """Have receive(letter) called soon. It raises nothing."""
        self._letters.append((receive, letter))  # before the flag is read: whoever clears it finds this
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon_threadsafe(self._empty)

    def _empty(self) -> None:
        self._is_called = False  # before the letters are taken: who comes later calls again
        while self._letters:
            receive, letter = self._letters.popleft()
            receive(letter)
