"""The engine's loop: each step is schedule, run, sample, commit."""

import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Protocol

import numpy as np

from chenxing.engine.batch import Batch
from chenxing.engine.pace import Pace
from chenxing.engine.request import Choice, Event, Request
from chenxing.engine.running_step import RunningStep
from chenxing.engine.scheduler import Scheduler
from chenxing.engine.speculation import Speculation
from chenxing.engine.stats import NO_DRAFTS, EngineStats
from chenxing.kernels.cut import Cut, StepCut
from chenxing.kvcache import KVCache
from chenxing.models import Run
from chenxing.models.model import N_BATCH


class StepModel(Protocol):
    """What the loop needs of a Model. `step` raises StepCut if it was ended early."""

    def step(self, runs: Sequence[Run]) -> np.ndarray: ...


class Loop:
    """Requests in, events out. `submit`, `post` and `stop` may be called from any thread; all else is one thread's.

    The text of a request depends on its tokens, its sampler and the model: not on who else runs, on how prompts are
    cut, on preemption, on what is drafted, or on time. A step that ends early has never been.

    cut  what ends the steps of the model, and of a draft model
    """

    def __init__(
        self,
        model: StepModel,
        cache: KVCache,
        n_ctx: int,
        n_slots: int,
        n_batch: int = N_BATCH,
        *,
        speculation: Speculation | None = None,
        cut: Cut | None = None,
    ) -> None:
        self._running = RunningStep(cut or Cut())
        self._model, self._cache, self._n_ctx = model, cache, n_ctx
        self._pace, self._speculation = Pace(min(n_batch, N_BATCH)), speculation
        self._scheduler = Scheduler(cache, n_ctx, n_slots, self._pace, speculation=speculation)
        self._inbox: SimpleQueue[Request | Callable[[], None]] = SimpleQueue()
        self._n_submitted = self._n_steps = self._n_computed = self._n_generated = 0
        self._busy_ms = 0.0

    @property
    def is_idle(self) -> bool:
        """Nobody runs, waits or comes."""
        return not self._live and self._inbox.empty()

    def submit(self, request: Request) -> None:
        """Let it wait for its turn. Its prompt fits into the context."""
        assert 0 < request.n_prompt <= self._n_ctx and request.state == "waiting"
        assert request.twin_of is None or request.twin_of.ids[: request.n_prompt] == request.ids
        request.on_cancel = self._running.look
        self._inbox.put(request)

    def post(self, function: Callable[[], None]) -> None:
        """Have it called between two steps."""
        self._inbox.put(function)

    def wait(self) -> None:
        """Sleep until something is submitted or posted."""
        self._take_in(self._inbox.get())

    def step(self) -> list[Event]:
        """Bring everybody who has a turn one step further, and tell them."""
        started = time.perf_counter()
        events = self._receive()
        batch = self._scheduler.schedule()
        events += batch.ended
        if batch.shares and (logits := self._run(batch)) is not None:
            choices = self._sample(batch, logits)
            events += self._commit(batch, choices)
            self._measure(batch, choices, 1000 * (time.perf_counter() - started))
        for event in events:
            _tell(event)
        return events

    def pause(self) -> None:
        """Leave all pages to others until the next step; what is in them stays in the cache as long as it can."""
        self._scheduler.preempt_all()

    def fail(self, error: Exception) -> None:
        """End everybody with an error: the model could not run."""
        for request in self._live:
            request.fail(error)
            _tell(self._leave(request))

    def stop(self) -> None:
        """End the running step before its time, and each one before it begins, until `close`. From any thread."""
        self._running.stop()

    def close(self) -> None:
        """End everybody as cancelled."""
        while not self._inbox.empty() or self._live:
            for event in self._receive():
                _tell(event)
            for request in self._live:
                request.cancel()
        self._running.resume()

    def stats(self) -> EngineStats:
        return EngineStats(
            n_running=len(self._scheduler.running),
            n_waiting=len(self._scheduler.waiting),
            n_pages=self._cache.n_pages,
            n_free=self._cache.n_free,
            n_steps=self._n_steps,
            busy_ms=self._busy_ms,
            n_computed=self._n_computed,
            n_generated=self._n_generated,
            n_preemptions=self._scheduler.n_preemptions,
            n_step_rows=self._pace.n_rows,
            spec_type=self._speculation.name if self._speculation else "none",
            drafts=self._speculation.counts if self._speculation else NO_DRAFTS,
        )

    @property
    def _live(self) -> list[Request]:
        return self._scheduler.running + self._scheduler.waiting

    def _receive(self) -> list[Event]:
        """Newcomers come, and those who are not wanted any more go."""
        while not self._inbox.empty():
            self._take_in(self._inbox.get())
        gone = []
        for request in self._live:
            if request.is_cancelled:
                gone.append(self._leave(request, request.end("cancelled")))
            elif request.limits.max_tokens == 0:
                gone.append(self._leave(request, request.end("length")))
        return gone

    def _take_in(self, item: Request | Callable[[], None]) -> None:
        if isinstance(item, Request):
            self._n_submitted += 1
            item.number = self._n_submitted
            self._scheduler.add(item)
        else:
            item()

    def _run(self, batch: Batch) -> np.ndarray | None:
        """None if it was ended early: what it wrote lies behind the tokens of the sequences, where nobody reads."""
        self._running.begin(batch.served(self._scheduler.waiting))
        try:
            if self._speculation:
                self._speculation.draft(batch.shares)
            return self._model.step([share.run() for share in batch.shares])
        except StepCut:
            return None
        finally:
            self._running.end()

    def _sample(self, batch: Batch, logits: np.ndarray) -> dict[Request, Choice]:
        """The next tokens of all whose tokens are computed now."""
        choices: dict[Request, Choice] = {}
        at = 0
        for share in batch.shares:
            if not share.is_last:
                continue
            rows = logits[at : at + 1 + len(share.draft)]
            at += len(rows)
            for request in (share.request, *share.twins):
                choices[request] = request.choose(rows, share.draft)
        return choices

    def _commit(self, batch: Batch, choices: dict[Request, Choice]) -> list[Event]:
        for share in batch.shares:
            sequence = share.request.sequence
            assert sequence
            sequence.commit(share.tokens)
            for twin in share.twins:
                self._scheduler.join(twin, share.request)
        events = [self._follow(request, choice) for request, choice in choices.items()]
        return events + [s.request.event() for s in batch.shares if s.request not in choices]

    def _follow(self, request: Request, choice: Choice) -> Event:
        if request.is_cancelled:
            return self._leave(request, request.end("cancelled"))
        n_before = len(request.ids)
        text = request.follow(choice, self._n_ctx)
        tokens = tuple(request.ids[n_before:])
        self._n_generated += len(tokens)
        return self._leave(request, text, tokens) if request.finish_reason else request.event(text, tokens)

    def _leave(self, request: Request, text: str = "", tokens: tuple[int, ...] = ()) -> Event:
        event = request.event(text, tokens)
        self._scheduler.remove(request)
        return event

    def _measure(self, batch: Batch, choices: dict[Request, Choice], ms: float) -> None:
        if self._speculation:
            self._speculation.measured(batch.shares, choices, ms)
        n_rows = sum(share.n_scheduled for share in batch.shares)
        n_answers = sum(share.n_scheduled == 1 for share in batch.shares)
        self._pace.measured(n_answers, n_rows - n_answers, ms)
        self._n_steps += 1
        self._n_computed += n_rows + sum(len(share.draft) for share in batch.shares)
        self._busy_ms += ms


def _tell(event: Event) -> None:
    try:
        event.request.on_event(event)
    except Exception:  # nobody listens any more
        event.request.cancel()
