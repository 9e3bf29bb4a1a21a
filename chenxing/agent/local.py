"""The local model as an agent's model. Calls follow the grammar of the tools' schemas, whatever the model's size."""

import asyncio
import threading
from random import Random
from typing import TYPE_CHECKING, Any

from chenxing.agent.gathering import Gathering
from chenxing.agent.model import Answer, Choice, Message, OnPiece, Usage
from chenxing.agent.threads import in_thread
from chenxing.chat.tools import ToolCalling, tool_request
from chenxing.errors import UsageError

if TYPE_CHECKING:
    from chenxing.engine import Generation
    from chenxing.llm import LLM
    from chenxing.sampling import SamplingParams

MAX_TOKENS = 1024


class LocalModel:
    """llm         is closed by its owner, when nothing runs any more
    params      of sampling; the model's own by default
    max_tokens  of one answer; a grammar permits texts without end, so there is always a limit
    parallel_calls  an answer may hold several; small models then make the same call again and again

    Answers of parallel nodes are given one after the other.
    """

    def __init__(
        self,
        llm: "LLM",
        *,
        params: "SamplingParams | None" = None,
        max_tokens: int = MAX_TOKENS,
        parallel_calls: bool = False,
        **template_kwargs: Any,
    ) -> None:
        if llm.template is None:
            raise UsageError(f"{llm.path.name} has no chat template: give one, such as chatml, with --chat-template")
        self._llm, self._params, self._max_tokens = llm, params, max_tokens
        self._calling, self._kwargs = ToolCalling(llm.template), template_kwargs
        self._parallel = parallel_calls
        self._lock = threading.Lock()  # an LLM answers one at a time

    async def answer(
        self, messages: list[Message], tools: list[dict[str, Any]], choice: Choice, on_piece: OnPiece
    ) -> Answer:
        running = _Running()
        work = asyncio.ensure_future(in_thread(lambda: self._answer(running, messages, tools, choice, on_piece)))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait([work])  # until the engine has let go of it
            work.exception()
            raise

    def _answer(
        self,
        running: "_Running",
        messages: list[Message],
        tools: list[dict[str, Any]],
        choice: Choice,
        on_piece: OnPiece,
    ) -> Answer:
        request = tool_request(tools or None, choice if tools else None, self._parallel)
        prompt = self._calling.render(messages, request, **self._kwargs)
        grammar = prompt.grammar()
        with self._lock:
            generation = self._llm.stream(
                prompt.prompt,
                params=self._params,
                max_tokens=self._max_tokens,
                constraint=self._llm.grammars.lark(grammar) if grammar else None,
            )
            running.begin(generation)
            gathering, parser = Gathering(on_piece), prompt.parser(Random())
            for text in generation:
                gathering.take(parser.feed(text))
            gathering.take(parser.finish())
        stats = generation.stats
        usage = Usage(stats.n_prompt, stats.n_cached, stats.n_generated)
        return gathering.answer(usage, generation.finish_reason or "stop")


class _Running:
    """An answer that may be cancelled before and after it has begun."""

    def __init__(self) -> None:
        self._generation: Generation | None = None
        self._is_cancelled = False

    def begin(self, generation: "Generation") -> None:
        self._generation = generation
        if self._is_cancelled:
            generation.cancel()

    def cancel(self) -> None:
        self._is_cancelled = True
        if self._generation:
            self._generation.cancel()
