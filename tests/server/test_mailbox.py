"""Posting from threads to an event loop: nothing is lost, order is kept, and many letters need one call."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from chenxing.server.mailbox import Mailbox


class Calls:
    """In place of a loop: keeps what it was asked to call."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], Any]] = []

    def call_soon_threadsafe(self, function: Callable[[], Any]) -> None:
        self.waiting.append(function)


def test_one_call_for_all_that_was_posted_before_it_came():
    loop, got = Calls(), []
    mailbox = Mailbox(loop)
    for i in range(3):
        mailbox.post(got.append, i)
    assert len(loop.waiting) == 1 and not got
    loop.waiting.pop()()
    assert got == [0, 1, 2] and not loop.waiting
    mailbox.post(got.append, 3)
    assert len(loop.waiting) == 1


def test_what_a_receiver_posts_is_received():
    loop, got = Calls(), []
    mailbox = Mailbox(loop)
    mailbox.post(lambda n: mailbox.post(got.append, n + 1), 1)
    while loop.waiting:
        loop.waiting.pop()()
    assert got == [2]


def test_threads_lose_nothing_and_keep_their_order():
    n_threads, n = 4, 2000
    got: list[tuple[int, int]] = []

    async def run() -> None:
        done = asyncio.Event()
        mailbox = Mailbox(asyncio.get_running_loop())

        def receive(letter: tuple[int, int]) -> None:
            got.append(letter)
            if len(got) == n_threads * n:
                done.set()

        def send(thread: int) -> None:
            for i in range(n):
                mailbox.post(receive, (thread, i))

        threads = [threading.Thread(target=send, args=(i,)) for i in range(n_threads)]
        for thread in threads:
            thread.start()
        await asyncio.wait_for(done.wait(), 60)
        for thread in threads:
            thread.join()

    asyncio.run(run())
    assert [[i for t, i in got if t == thread] for thread in range(n_threads)] == [list(range(n))] * n_threads
