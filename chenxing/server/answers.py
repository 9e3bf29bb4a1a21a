"""One request's answers as the event loop sees them: steps out of a queue that the engine's thread feeds."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from copy import copy
from dataclasses import dataclass, field

from chenxing.chat import Prompt
from chenxing.engine import Event, FinishReason, Request, Stats
from chenxing.server.failures import unavailable
from chenxing.server.token_probs import ProbRecorder, TokenProb


@dataclass(frozen=True)
class Encoded:
    """A prompt. text: what the ids were made of, None where they were given, or where nobody sends an answer back."""

    ids: list[int]
    text: Prompt | None = None


@dataclass(frozen=True)
class Step:
    """What a step of the engine did for one of the answers.

    stats      as they stood then; prompt_ms runs on while the prompt is computed
    """

    index: int
    text: str
    tokens: tuple[int, ...]
    probs: tuple[TokenProb, ...]
    n_computed: int
    stats: Stats
    finish_reason: FinishReason | None
    error: Exception | None


@dataclass(eq=False)
class Answer:
    """One of the n. steps' text and tokens are gathered here as they are taken from the queue."""

    prompt: Encoded
    request: Request
    recorder: ProbRecorder | None
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    probs: list[TokenProb] = field(default_factory=list)
    last: Step | None = None

    def gather(self, step: Step) -> None:
        self.text += step.text
        self.tokens += step.tokens
        self.probs += step.probs
        self.last = step

    @property
    def stats(self) -> Stats:
        """At the last step."""
        return self.last.stats if self.last else self.request.stats

    @property
    def is_finished(self) -> bool:
        return self.last is not None and self.last.finish_reason is not None


class Job:
    """The answers to one prompt, or to several of one request. `steps` is for one reader, in the loop's thread.

    on_end  is awaited with an answer that has come to its end, before anybody is told
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_end: Callable[[Answer], Awaitable[None]]) -> None:
        self.answers: list[Answer] = []
        self._on_end = on_end
        self._loop = loop
        self._queue: asyncio.Queue[Step] = asyncio.Queue()
        self._since = time.perf_counter()

    def add(self, prompt: Encoded, request: Request, recorder: ProbRecorder | None) -> Answer:
        """One more; its events come here."""
        index = len(self.answers)
        request.on_event = lambda event: self._tell(index, recorder, event)
        answer = Answer(prompt, request, recorder)
        self.answers.append(answer)
        return answer

    async def steps(self, patience: float | None = None) -> AsyncIterator[Step | None]:
        """All steps until all answers have finished; None whenever nothing came for `patience` seconds.

        Raises what an answer failed with.
        """
        n_running = len(self.answers)
        while n_running:
            try:
                step = await asyncio.wait_for(self._queue.get(), patience)
            except TimeoutError:
                yield None
                continue
            self.answers[step.index].gather(step)
            n_running -= step.finish_reason is not None
            if step.error:
                raise step.error
            if step.finish_reason == "cancelled":  # not by the reader, who would have left
                raise unavailable("The server is shutting down")
            if step.finish_reason:
                await self._on_end(self.answers[step.index])
            yield step

    async def drain(self) -> None:
        """Run to the end. Raises what an answer failed with."""
        async for _ in self.steps():
            pass

    def cancel(self) -> None:
        """Whatever still runs ends at once; what whole steps computed stays in the cache."""
        for answer in self.answers:
            answer.request.cancel()

    def _tell(self, index: int, recorder: ProbRecorder | None, event: Event) -> None:
        """In the engine's thread."""
        stats = copy(event.request.stats)
        if not stats.prompt_ms and stats.queue_ms:
            stats.prompt_ms = 1000 * (time.perf_counter() - self._since) - stats.queue_ms
        probs = recorder.take(len(event.tokens)) if recorder else ()
        step = Step(
            index,
            event.text,
            event.tokens,
            probs,
            event.n_computed,
            stats,
            event.finish_reason,
            event.request.error,
        )
        self._loop.call_soon_threadsafe(self._queue.put_nowait, step)
