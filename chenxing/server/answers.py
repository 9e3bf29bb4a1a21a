"""One request's answers as the event loop sees them: steps out of the mailbox that the engine's thread posts to."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import msgspec

from chenxing.chat import Prompt
from chenxing.engine import Event, FinishReason, Request, Stats
from chenxing.server.failures import unavailable
from chenxing.server.mailbox import Mailbox
from chenxing.server.token_probs import ProbRecorder, TokenProb


@dataclass(frozen=True)
class Encoded:
    """A prompt. text: what the ids were made of, None where they were given, or where nobody sends an answer back."""

    ids: list[int]
    text: Prompt | None = None


class Step(msgspec.Struct, frozen=True):
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
    """One of the n. steps' text and tokens are gathered here as they are taken."""

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

    def __init__(self, mailbox: Mailbox, on_end: Callable[[Answer], Awaitable[None]]) -> None:
        self.answers: list[Answer] = []
        self._on_end = on_end
        self._mailbox = mailbox
        self._unread: deque[Step] = deque()
        self._asleep: asyncio.Future[None] | None = None  # of the reader, while there is nothing for it
        self._take: Callable[[Step], bool] = lambda step: False
        self._since = time.perf_counter()

    def add(self, prompt: Encoded, request: Request, recorder: ProbRecorder | None) -> Answer:
        """One more; its events come here."""
        index = len(self.answers)
        request.on_event = lambda event: self._tell(index, recorder, event)
        answer = Answer(prompt, request, recorder)
        self.answers.append(answer)
        return answer

    async def steps(self, take: Callable[[Step], bool]) -> AsyncIterator[Step]:
        """What was not taken, and the last step of every answer, until all have finished.

        take  is called with a step while the reader sleeps here, and says whether it has dealt with it: to wake a task
              for a token costs more than a token is worth. An error that it raises is the reader's

        Raises what an answer failed with.
        """
        n_running = len(self.answers)
        self._take = take
        while n_running:
            step = await self._next()
            self.answers[step.index].gather(step)
            n_running -= step.finish_reason is not None
            if step.error:
                raise step.error
            if step.finish_reason == "cancelled":  # not by the reader, who would have left
                raise unavailable("The server is shutting down")
            if step.finish_reason:
                await self._on_end(self.answers[step.index])
            yield step

    async def _next(self) -> Step:
        if not self._unread:
            self._asleep = asyncio.get_running_loop().create_future()
            try:
                await self._asleep
            finally:
                self._asleep = None
        return self._unread.popleft()

    async def drain(self) -> None:
        """Run to the end. Raises what an answer failed with."""
        async for _ in self.steps(lambda step: True):
            pass

    def cancel(self) -> None:
        """Whatever still runs ends at once; what whole steps computed stays in the cache."""
        for answer in self.answers:
            answer.request.cancel()

    def _tell(self, index: int, recorder: ProbRecorder | None, event: Event) -> None:
        """In the engine's thread."""
        request = event.request
        stats = Stats(**vars(request.stats))
        if not stats.prompt_ms and stats.queue_ms:
            stats.prompt_ms = 1000 * (time.perf_counter() - self._since) - stats.queue_ms
        probs = recorder.take(len(event.tokens)) if recorder else ()
        reason, error = event.finish_reason, request.error
        step = Step(index, event.text, event.tokens, probs, event.n_computed, stats, reason, error)
        self._mailbox.post(self._receive, step)

    def _receive(self, step: Step) -> None:
        """In the loop's thread."""
        if self._asleep and not self._unread and not step.finish_reason:
            try:
                if self._take(step):
                    self.answers[step.index].gather(step)
                    return
            except Exception as error:
                step = msgspec.structs.replace(step, error=error)
        self._unread.append(step)
        if self._asleep and not self._asleep.done():
            self._asleep.set_result(None)
