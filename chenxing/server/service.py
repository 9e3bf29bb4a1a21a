"""The bridge between the event loop and the engine's thread.

The loop never waits for the engine: requests are put into its inbox, its events come back through a mailbox, and texts
are rendered and tokenised in a few threads of their own.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from chenxing.chat import load_template
from chenxing.chat.tools import ToolCalling
from chenxing.engine import EngineStats, EngineThread, Limits, Request, Shift
from chenxing.llm import LLM
from chenxing.sampling import Constraint, Sampler, SamplingParams
from chenxing.server.answers import Answer, Encoded, Job
from chenxing.server.facts import Facts, facts_of
from chenxing.server.failures import ApiError, too_long, unavailable
from chenxing.server.mailbox import Mailbox
from chenxing.server.settings import ServeSettings
from chenxing.server.slots import Slots
from chenxing.server.token_probs import ProbRecorder
from chenxing.server.totals import Totals

T = TypeVar("T")
_TEXT_THREADS = 2
# Of all threads: what the engine's waits for the interpreter whenever it comes back to it while somebody's text is
# tokenised, and more than it needs itself between two steps. Python's own 5 ms made a step of 8 ms take 24
_SWITCH_SECONDS = 0.0002
DEFAULT_TEMPLATE = "chatml"  # llama-server's too, for a model without one


@dataclass(frozen=True)
class Wish:
    """How answers to a prompt are to be made.

    max_tokens      None: as many as there is room for
    n_alternatives  of each token to be told; None: nothing is told
    constraint      what all answers must be; it is theirs from then on
    n_keep          tokens of the prompt that stay when a full context shifts
    """

    params: SamplingParams
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    n: int = 1
    n_alternatives: int | None = None
    after_sampling: bool = False
    id_slot: int | None = None
    constraint: Constraint | None = None
    n_keep: int = 0


class Service:
    """State of one server. All methods are the event loop's thread's.

    llm          None until it is loaded, and while it sleeps
    n_ctx        tokens of one answer's context
    is_sleeping  the model was let go of, since nobody asked for it
    """

    def __init__(self, settings: ServeSettings) -> None:
        self.settings = settings
        self.started = time.time()
        self.llm: LLM | None = None
        self.n_ctx = 0
        self.totals = Totals()
        self.slots = Slots(settings.n_slots)
        self._thread: EngineThread | None = None
        self._mailbox: Mailbox | None = None
        self._texts = ThreadPoolExecutor(_TEXT_THREADS, thread_name_prefix="text")
        self._grammars = ThreadPoolExecutor(1, thread_name_prefix="grammar")  # so that no text waits for a grammar
        self._jobs: set[Job] = set()
        self._is_closing = False
        self._all_done = asyncio.Event()
        self.is_sleeping = False
        self._facts: Facts | None = None
        self._last_stats: EngineStats | None = None
        self._n_asking = 0
        self._waking = asyncio.Lock()
        self._bedtime: asyncio.TimerHandle | None = None
        self._nap: asyncio.Task[None] | None = None

    def load(self) -> LLM:
        """In a thread of its own: takes seconds. Raises what LLM.load raises."""
        llm = LLM.load(self.settings.model, n_slots=self.settings.n_slots, **self.settings.model_options)
        if llm.template is None:
            llm.template = load_template(llm.gguf.metadata, llm.tokenizer, override=DEFAULT_TEMPLATE)
            llm.notices.append(f"{llm.path.name} has no chat template: messages are written as {DEFAULT_TEMPLATE}")
        return llm

    def open(self, llm: LLM) -> None:
        """The model is there: requests may come. From now on the process's threads take short turns."""
        self.llm = llm
        self.n_ctx = min(self.settings.n_ctx_slot or llm.n_ctx, llm.n_ctx)
        assert llm.template
        self.tools = ToolCalling(llm.template)
        self.defaults = replace(llm.sampling_defaults, **self.settings.sampling)
        self._facts, self.is_sleeping = facts_of(llm), False
        self._mailbox = Mailbox(asyncio.get_running_loop())
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._thread = EngineThread(llm.engine)
        self._wait_for_bedtime()

    @contextlib.asynccontextmanager
    async def awake(self) -> AsyncIterator[None]:
        """The model does not go to sleep inside; if it sleeps, it is woken first."""
        self._n_asking += 1
        try:
            async with self._waking:
                if self.is_sleeping and not self._is_closing:
                    self.open(await asyncio.to_thread(self.load))
            yield
        finally:
            self._n_asking -= 1
            self._wait_for_bedtime()

    def _wait_for_bedtime(self) -> None:
        if self._bedtime:
            self._bedtime.cancel()
        if self.settings.sleep_idle_seconds is not None and not self._n_asking and not self._is_closing:
            loop = asyncio.get_running_loop()
            self._bedtime = loop.call_later(self.settings.sleep_idle_seconds, self._lie_down)

    def _lie_down(self) -> None:
        self._nap = asyncio.create_task(self._sleep())

    async def _sleep(self) -> None:
        """Give memory and threads back; what the disk is to have is written."""
        async with self._waking:
            if self._n_asking or self.is_sleeping or self._is_closing or not (self._thread and self.llm):
                return
            self._last_stats = await self.stats()
            self.is_sleeping = True
            thread, llm = self._thread, self.llm
            self._thread = self.llm = None
            del self.tools
            await asyncio.to_thread(thread.close)
            await asyncio.to_thread(llm.close)

    @property
    def model(self) -> LLM:
        """Raises ApiError 503 while there is none."""
        if self.llm is None:
            raise unavailable("Loading model")
        return self.llm

    @property
    def facts(self) -> Facts:
        """Raises ApiError 503 before there was a model."""
        if self._facts is None:
            raise unavailable("Loading model")
        return self._facts

    @property
    def name(self) -> str:
        """Of the model, as clients see it."""
        if self.settings.aliases:
            return min(self.settings.aliases)
        return self._facts.name if self._facts else self.settings.model

    async def in_text_thread(self, function: Callable[[], T]) -> T:
        """What function returns or raises: for rendering and tokenising."""
        return await asyncio.get_running_loop().run_in_executor(self._texts, function)

    async def in_grammar_thread(self, function: Callable[[], T]) -> T:
        """What function returns or raises: for making constraints."""
        return await asyncio.get_running_loop().run_in_executor(self._grammars, function)

    async def stats(self) -> EngineStats:
        """The engine's, between two of its steps; of one that sleeps, its last."""
        if self._thread is None:
            assert self._last_stats
            return self._last_stats
        thread, engine = self._thread, self.model.engine
        return await asyncio.to_thread(thread.call, engine.stats)

    async def forget(self, ids: list[int]) -> int:
        """Take a conversation out of the KV cache. -> how many of its tokens are gone"""
        assert self._thread
        thread, engine = self._thread, self.model.engine
        return await asyncio.to_thread(thread.call, lambda: engine.forget(ids))

    def submit(self, prompts: Sequence[Encoded], wish: Wish) -> Job:
        """Let the answers to these prompts wait for their turn. Raises ApiError if one does not fit, or is empty.

        The caller hands the job to `finished` whatever happens.
        """
        llm = self.model
        if self._is_closing:
            raise unavailable("The server is shutting down")
        for ids in (prompt.ids for prompt in prompts):
            if not ids:
                raise ApiError(400, "invalid_request_error", "prompt: expected at least one token, found none")
            if len(ids) >= self.n_ctx:
                raise too_long(len(ids), self.n_ctx)
            if not all(0 <= token < llm.n_vocab for token in ids):
                raise ApiError(400, "invalid_request_error", f"prompt: expected token ids from 0 to {llm.n_vocab - 1}")
        assert self._mailbox
        job = Job(self._mailbox, self._remember)
        for prompt in prompts:
            first: Request | None = None
            for i in range(wish.n):
                answer = self._answer(job, prompt, wish, i, first)
                first = first or answer.request
        for answer in job.answers:
            self.slots.occupy(answer, wish.id_slot)
            llm.engine.submit(answer.request)
        self._jobs.add(job)
        return job

    def finished(self, job: Job) -> None:
        """Nobody reads it any more: count it, and cancel what still runs."""
        job.cancel()
        for answer in job.answers:
            self.slots.leave(answer)
            self.totals.count(answer)
            if not answer.is_finished and not self._is_closing:
                self._texts.submit(self._spell, answer)  # the client may send back what it has got
        self._jobs.discard(job)
        if self._is_closing and not self._jobs:
            self._all_done.set()

    async def close(self) -> None:
        """Let running answers end for a while, cancel what is left, and give the model back."""
        self._is_closing = True
        if self._bedtime:
            self._bedtime.cancel()
        if self._jobs:
            try:
                await asyncio.wait_for(self._all_done.wait(), self.settings.shutdown_seconds)
            except TimeoutError:
                for job in self._jobs:
                    job.cancel()
        async with self._waking:  # who falls asleep has to be done
            pass
        if self._thread and self.llm:
            await asyncio.to_thread(self._thread.close)
            await asyncio.to_thread(self.llm.close)
        for threads in (self._texts, self._grammars):
            threads.shutdown(wait=False, cancel_futures=True)

    async def _remember(self, answer: Answer) -> None:
        await self.in_text_thread(lambda: self._spell(answer))

    def _spell(self, answer: Answer) -> None:
        """In a text thread: the next prompt of this conversation is to find the answer's keys and values."""
        if answer.prompt.text is not None and answer.tokens:
            self.model.remember(answer.prompt.text, answer.tokens, answer.text)

    def _answer(self, job: Job, prompt: Encoded, wish: Wish, i: int, twin: Request | None) -> Answer:
        llm, ids = self.model, prompt.ids
        params = replace(wish.params, seed=wish.params.seed + i) if i and wish.params.seed >= 0 else wish.params
        tokenizer = llm.tokenizer
        constraint = wish.constraint.clone() if wish.constraint and job.answers else wish.constraint
        sampler = Sampler(
            params,
            llm.n_vocab,
            token_text=tokenizer.token_bytes,
            eog_ids=tokenizer.eog_ids,
            prompt=ids,
            constraint=constraint,
        )
        recorder = None
        if wish.n_alternatives is not None:
            recorder = ProbRecorder(wish.n_alternatives, sampler if wish.after_sampling else None)
        request = Request(
            list(ids),
            sampler,
            tokenizer.stream_decoder(),
            self._limits(wish, len(ids), sampler),
            twin_of=twin,
            observe=recorder.observe if recorder else None,
        )
        return job.add(prompt, request, recorder)

    def _limits(self, wish: Wish, n_prompt: int, sampler: Sampler) -> Limits:
        n_asked, room = wish.max_tokens, self.n_ctx - n_prompt
        if not self.settings.context_shift:
            return Limits(room if n_asked is None else min(room, n_asked), sampler.end_ids, wish.stop)
        n_keep = n_prompt if wish.n_keep < 0 else wish.n_keep + self.model.tokenizer.add_bos
        n_most = max(room, self.model.n_ctx_train - n_prompt)  # of an answer that would never end
        return Limits(n_most if n_asked is None else n_asked, sampler.end_ids, wish.stop, Shift(self.n_ctx, n_keep))
