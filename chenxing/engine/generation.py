"""One answer as it comes: an iterator of text with its counts."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from chenxing.engine.engine import Engine, Prefill
from chenxing.engine.stops import StopFilter
from chenxing.sampling import Sampler
from chenxing.tokenizer import Tokenizer

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass
class Stats:
    """n_prompt tokens of the prompt, n_cached of them reused, n_generated tokens of the answer; times in ms."""

    n_prompt: int = 0
    n_cached: int = 0
    n_generated: int = 0
    prompt_ms: float = 0.0
    generation_ms: float = 0.0

    @property
    def prompt_per_second(self) -> float:
        return 1000 * (self.n_prompt - self.n_cached) / self.prompt_ms if self.prompt_ms else 0.0

    @property
    def generated_per_second(self) -> float:
        """Of the tokens after the first, which belongs to the prompt's time."""
        return 1000 * (self.n_generated - 1) / self.generation_ms if self.generation_ms else 0.0


class Generation(Iterator[str]):
    """Iterate for the text, in pieces of whole characters. Attributes tell how far it got.

    text           so far
    token_ids      so far, the token that ended the answer not among them
    finish_reason  None while it runs; "stop" at an end-of-generation token or stop string, "length" at max_tokens or
                   a full context, "cancelled"
    """

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        sampler: Sampler,
        prompt: Sequence[int],
        *,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        on_prefill: Prefill | None = None,
    ) -> None:
        self.text = ""
        self.token_ids: list[int] = []
        self.finish_reason: FinishReason | None = None
        self.stats = Stats(n_prompt=len(prompt))
        self._engine, self._tokenizer, self._sampler, self._prompt = engine, tokenizer, sampler, prompt
        self._max_tokens, self._on_prefill = max_tokens, on_prefill
        self._stops = StopFilter(stop)
        self._cancelled = False
        self._pieces = self._run()

    def __next__(self) -> str:
        return next(self._pieces)

    def cancel(self) -> None:
        """End the answer before its next token. May be called from another thread or a signal handler."""
        self._cancelled = True

    def drain(self) -> "Generation":
        """Run to the end."""
        for _ in self:
            pass
        return self

    def _run(self) -> Iterator[str]:
        decoder = self._tokenizer.stream_decoder()
        for token in self._tokens():
            text = self._stops.push(decoder.push(token))
            self.text += text
            if text:
                yield text
            if self._stops.stopped:
                self.finish_reason = "stop"
                return
        rest = self._stops.push(decoder.finish())
        rest += self._stops.finish()
        self.text += rest
        if rest:
            yield rest

    def _tokens(self) -> Iterator[int]:
        started = time.perf_counter()
        if self._max_tokens == 0:
            self.finish_reason = "length"
            return
        try:
            self.stats.n_cached, logits = self._engine.prompt(self._prompt, self._prefilled)
        except _Cancelled:
            self.finish_reason = "cancelled"
            return
        while True:
            token = self._sampler.sample(logits)
            now = time.perf_counter()
            if not self.token_ids:
                self.stats.prompt_ms, started = 1000 * (now - started), now
            self.stats.generation_ms = 1000 * (now - started)
            if self._cancelled:
                self.finish_reason = "cancelled"
                return
            if self._sampler.ends(token):
                self.finish_reason = "stop"
                return
            self._sampler.accept(token)
            self.token_ids.append(token)
            self.stats.n_generated += 1
            full = len(self.token_ids) == self._max_tokens or not self._engine.n_free
            if full:
                self.finish_reason = "length"
            yield token
            if full:
                return
            logits = self._engine.append(token)

    def _prefilled(self, done: int, total: int) -> None:
        if self._on_prefill:
            self._on_prefill(done, total)
        if self._cancelled:
            raise _Cancelled


class _Cancelled(Exception):
    """Unwinds a prefill that is no longer wanted."""
