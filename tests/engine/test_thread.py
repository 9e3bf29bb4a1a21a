"""A driven engine: requests from several threads, sleep without polling, work between steps, and the end."""

import queue
import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from engine.fake_model import Bench, FakeSampler, alone, prompt, request

from chenxing.engine import Engine, EngineThread, Event, Generation, Limits


class Driven(Bench):
    """A bench behind an engine's face, counting how often it was asked."""

    n_steps = 0
    is_driven = False

    def step(self) -> list[Event]:
        self.n_steps += 1
        return self.loop.step()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loop, name)

    def cancel_all(self) -> None:
        self.loop.close()


def start(**options: int) -> tuple[Driven, EngineThread]:
    driven = Driven(**options)
    return driven, EngineThread(cast(Engine, driven))


def test_requests_of_several_threads() -> None:
    driven, thread = start(n_ctx=256)
    texts: dict[int, str] = {}

    def client(i: int) -> None:
        events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        driven.loop.submit(request(prompt(30, i), seed=i, limits=Limits(40), on_event=events.put))
        texts[i] = ""
        while True:
            event = events.get(timeout=30)
            texts[i] += event.text
            if event.finish_reason:
                return

    clients = [threading.Thread(target=client, args=(i,)) for i in range(6)]
    for c in clients:
        c.start()
    for c in clients:
        c.join()
    thread.close()
    assert texts == {i: alone(prompt(30, i), 256, seed=i, limits=Limits(40))[0] for i in range(6)}
    driven.check_conserved()


def test_it_sleeps_when_there_is_nothing_to_do() -> None:
    driven, thread = start()
    done = threading.Event()
    driven.loop.submit(request(prompt(5), limits=Limits(3), on_event=lambda e: done.set() if e.finish_reason else None))
    assert done.wait(30)
    n_steps = thread.call(lambda: driven.n_steps)
    assert not threading.Event().wait(0.05) and thread.call(lambda: driven.n_steps) == n_steps <= 4
    thread.close()


def test_calls_run_in_its_thread_and_bring_what_they_return_or_raise() -> None:
    driven, thread = start()
    assert thread.call(threading.current_thread).name == "engine"
    assert thread.call(driven.loop.stats).n_running == 0
    with pytest.raises(ZeroDivisionError):
        thread.call(lambda: 1 // 0)
    assert thread.call(lambda: 5) == 5
    thread.close()


def test_closing_cancels_what_runs() -> None:
    driven, thread = start(n_ctx=200_000, n_pages=7000)
    first = threading.Event()
    r = request(prompt(5), limits=Limits(), on_event=lambda _: first.set())
    driven.loop.submit(r)
    assert first.wait(30)
    thread.close()
    assert r.finish_reason == "cancelled" and r.text and not driven.is_driven
    driven.check_conserved()


def test_closing_ends_the_running_step() -> None:
    driven, thread = start()
    is_running = threading.Event()

    def run_long(_runs: object) -> None:
        is_running.set()
        deadline = time.monotonic() + 30
        while not driven.model.cut.is_set and time.monotonic() < deadline:
            time.sleep(0.001)

    driven.model.during = run_long
    r = request(prompt(5), limits=Limits(9))
    driven.loop.submit(r)
    assert is_running.wait(30)
    thread.close()
    assert driven.model.n_cut and not driven.model.steps and r.finish_reason == "cancelled" and not r.text
    driven.check_conserved()
    driven.model.during = lambda _: None
    again = driven.submit(request(prompt(5), limits=Limits(9)))  # others may go on with the engine
    driven.finish()
    assert again.text == alone(prompt(5), 256, limits=Limits(9))[0]


def test_a_failing_model_ends_its_requests_and_not_the_thread() -> None:
    driven, thread = start()
    sound, ended = driven.model.step, queue.SimpleQueue[Event]()

    def broken(_runs: object) -> np.ndarray:
        raise RuntimeError("out of order")

    driven.model.step = broken  # type: ignore[method-assign, assignment]
    r = request(prompt(5), limits=Limits(3), on_event=ended.put)
    driven.loop.submit(r)
    assert ended.get(timeout=30).finish_reason == "error" and str(r.error) == "out of order"
    driven.model.step = sound  # type: ignore[method-assign]
    again = request(prompt(5), limits=Limits(3), on_event=ended.put)
    driven.loop.submit(again)
    while not ended.get(timeout=30).finish_reason:
        pass
    assert again.text == alone(prompt(5), 256, limits=Limits(3))[0]
    thread.close()
    driven.check_conserved()


def test_generations_of_a_driven_engine() -> None:
    driven, thread = start(n_ctx=256)
    driven.submit = driven.loop.submit  # type: ignore[method-assign, assignment]
    letters = request([1]).decoder
    tokenizer = cast(Any, SimpleNamespace(stream_decoder=lambda: letters))
    mine = [
        Generation(cast(Engine, driven), tokenizer, cast(Any, FakeSampler(i)), prompt(20, i), max_tokens=9)
        for i in range(3)
    ]
    pieces = [next(g) for g in mine]
    for i, g in enumerate(mine):
        g.drain()
        assert g.text == alone(prompt(20, i), 256, seed=i, limits=Limits(9))[0] and g.text.startswith(pieces[i])
    thread.close()
