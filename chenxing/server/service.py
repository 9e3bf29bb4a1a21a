"""The bridge between the event loop and the engine's thread.

The loop never waits for the engine: requests are put into its inbox, its events come back through the loop's own queue
of callbacks, and texts are rendered and tokenised in a few threads of their own.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from chenxing.chat import load_template
from chenxing.chat.tools import ToolCalling
from chenxing.engine import EngineStats, EngineThread, Limits, Request
from chenxing.llm import LLM
from chenxing.sampling import Constraint, Sampler, SamplingParams
from chenxing.server.answers import Answer, Encoded, Job
from chenxing.server.failures import ApiError, too_long, unavailable
from chenxing.server.settings import ServeSettings
from chenxing.server.slots import Slots
from chenxing.server.token_probs import ProbRecorder
from chenxing.server.totals import Totals

T = TypeVar("T")
_TEXT_THREADS = 2
DEFAULT_TEMPLATE = "chatml"  # llama-server's too, for a model without one


@dataclass(frozen=True)
class Wish:
    """How answers to a prompt are to be made.

    max_tokens      None: as many as there is room for
    n_alternatives  of each token to be told; None: nothing is told
    constraint      what all answers must be; each follows a copy
    """

    params: SamplingParams
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    n: int = 1
    n_alternatives: int | None = None
    after_sampling: bool = False
    id_slot: int | None = None
    constraint: Constraint | None = None


class Service:
    """State of one server. All methods are the event loop's thread's.

    llm      None until it is loaded
    n_ctx    tokens of one answer's context
    """

    def __init__(self, settings: ServeSettings) -> None:
        self.settings = settings
        self.started = time.time()
        self.llm: LLM | None = None
        self.n_ctx = 0
        self.totals = Totals()
        self.slots = Slots(settings.n_slots)
        self._thread: EngineThread | None = None
        self._texts = ThreadPoolExecutor(_TEXT_THREADS, thread_name_prefix="text")
        self._grammars = ThreadPoolExecutor(1, thread_name_prefix="grammar")  # so that no text waits for a grammar
        self._jobs: set[Job] = set()
        self._is_closing = False
        self._all_done = asyncio.Event()

    def load(self) -> LLM:
        """In a thread of its own: takes seconds. Raises what LLM.load raises."""
        llm = LLM.load(self.settings.model, n_slots=self.settings.n_slots, **self.settings.model_options)
        if llm.template is None:
            llm.template = load_template(llm.gguf.metadata, llm.tokenizer, override=DEFAULT_TEMPLATE)
            llm.notices.append(f"{llm.path.name} has no chat template: messages are written as {DEFAULT_TEMPLATE}")
        return llm

    def open(self, llm: LLM) -> None:
        """The model is there: requests may come."""
        self.llm = llm
        self.n_ctx = min(self.settings.n_ctx_slot or llm.n_ctx, llm.n_ctx)
        assert llm.template
        self.tools = ToolCalling(llm.template)
        self.defaults = replace(llm.sampling_defaults, **self.settings.sampling)
        self._thread = EngineThread(llm.engine)

    @property
    def model(self) -> LLM:
        """Raises ApiError 503 while there is none."""
        if self.llm is None:
            raise unavailable("Loading model")
        return self.llm

    @property
    def name(self) -> str:
        """Of the model, as clients see it."""
        if self.settings.aliases:
            return min(self.settings.aliases)
        return self.llm.path.name if self.llm else self.settings.model

    async def in_text_thread(self, function: Callable[[], T]) -> T:
        """What function returns or raises: for rendering and tokenising."""
        return await asyncio.get_running_loop().run_in_executor(self._texts, function)

    async def in_grammar_thread(self, function: Callable[[], T]) -> T:
        """What function returns or raises: for making constraints."""
        return await asyncio.get_running_loop().run_in_executor(self._grammars, function)

    async def stats(self) -> EngineStats:
        """The engine's, between two of its steps."""
        assert self._thread
        thread, engine = self._thread, self.model.engine
        return await asyncio.to_thread(thread.call, engine.stats)

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
        job = Job(asyncio.get_running_loop(), self._remember)
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
        if self._jobs:
            try:
                await asyncio.wait_for(self._all_done.wait(), self.settings.shutdown_seconds)
            except TimeoutError:
                for job in self._jobs:
                    job.cancel()
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
        sampler = Sampler(
            params,
            llm.n_vocab,
            token_text=tokenizer.token_bytes,
            eog_ids=tokenizer.eog_ids,
            prompt=ids,
            constraint=wish.constraint.clone() if wish.constraint else None,
        )
        room = self.n_ctx - len(ids)
        n_tokens = room if wish.max_tokens is None else min(room, wish.max_tokens)
        recorder = None
        if wish.n_alternatives is not None:
            recorder = ProbRecorder(wish.n_alternatives, sampler if wish.after_sampling else None)
        request = Request(
            list(ids),
            sampler,
            tokenizer.stream_decoder(),
            Limits(n_tokens, sampler.end_ids, wish.stop),
            twin_of=twin,
            observe=recorder.observe if recorder else None,
        )
        return job.add(prompt, request, recorder)
