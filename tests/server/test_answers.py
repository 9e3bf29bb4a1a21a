"""A job's steps: taken at once while its reader sleeps, read in their order otherwise, its ends always read."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from chenxing.engine import Event, Limits, Request
from chenxing.server.answers import Answer, Encoded, Job, Step
from chenxing.server.mailbox import Mailbox


class Bench:
    """One answer, whose engine is the test; `taken` and `read` are its texts by the way they went."""

    def __init__(self) -> None:
        self.ended: list[Answer] = []
        self.taken, self.read = [], []
        self.refused: set[str] = set()
        self.job = Job(Mailbox(asyncio.get_running_loop()), self._end)
        self.request = Request([1], SimpleNamespace(), SimpleNamespace(), Limits())
        self.answer = self.job.add(Encoded([1]), self.request, None)

    async def _end(self, answer: Answer) -> None:
        self.ended.append(answer)

    def tell(self, text: str, reason: Any = None) -> None:
        self.request.on_event(Event(self.request, 1, (7,), text, reason))

    def take(self, step: Step) -> bool:
        if step.text in self.refused:
            return False
        self.taken.append(step.text)
        return True

    async def follow(self) -> None:
        async for step in self.job.steps(self.take):
            self.read.append(step.text)


async def rest() -> None:
    """Until everything that can happen has happened."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_steps_are_taken_and_the_last_one_is_read():
    async def run() -> None:
        bench = Bench()
        reader = asyncio.create_task(bench.follow())
        await rest()
        for text in "abc":
            bench.tell(text)
            await rest()
        bench.tell("d", "stop")
        await reader
        assert (bench.taken, bench.read) == (["a", "b", "c"], ["d"])
        assert bench.answer.text == "abcd" and bench.answer.tokens == [7] * 4 and bench.ended == [bench.answer]

    asyncio.run(run())


def test_what_cannot_be_taken_is_read_before_what_could():
    async def run() -> None:
        bench = Bench()
        bench.tell("a")  # nobody reads yet
        reader = asyncio.create_task(bench.follow())
        await rest()
        bench.refused.add("b")
        for text in "bcd":  # in one wake-up: b was not taken, so the others wait behind it
            bench.tell(text)
        await rest()
        bench.tell("e")
        await rest()
        bench.tell("", "length")
        await reader
        assert bench.taken == ["e"] and bench.read == ["a", "b", "c", "d", ""]
        assert bench.answer.text == "abcde"

    asyncio.run(run())


def test_an_error_of_the_taker_is_the_readers():
    async def run() -> None:
        bench = Bench()
        bench.take = lambda step: 1 / 0
        reader = asyncio.create_task(bench.follow())
        await rest()
        bench.tell("a")
        with pytest.raises(ZeroDivisionError):
            await reader

    asyncio.run(run())


def test_a_reader_that_is_gone_takes_nothing():
    async def run() -> None:
        bench = Bench()
        reader = asyncio.create_task(bench.follow())
        await rest()
        reader.cancel()
        await rest()
        bench.tell("a")
        await rest()
        assert reader.cancelled() and not bench.taken and not bench.answer.text

    asyncio.run(run())


def test_draining_gathers_without_reading():
    async def run() -> None:
        bench = Bench()
        reader = asyncio.create_task(bench.job.drain())
        await rest()
        for text in "abc":
            bench.tell(text)
        bench.tell("", "stop")
        await reader
        assert bench.answer.text == "abc" and bench.answer.is_finished

    asyncio.run(run())
