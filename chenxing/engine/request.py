"""One request: its tokens, how they are chosen, where they end, and what its listener is told.

Its life: waiting, running (with a sequence of KV), perhaps preempted and waiting again, finished. Two counters carry
chunked prefill, decoding and resumption alike: `sequence.n_tokens` tokens of `ids` are computed, the others are
pending; whoever has one pending token decodes, whoever has more prefills.
"""

import time
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from chenxing.engine.stats import Stats
from chenxing.engine.stops import StopFilter
from chenxing.kvcache import Sequence as KVSequence

FinishReason = Literal["stop", "length", "cancelled", "error"]
State = Literal["waiting", "running", "finished"]


class Chooser(Protocol):
    """What a request needs of a Sampler."""

    def sample(self, logits: np.ndarray) -> int: ...
    def accept(self, token_id: int) -> None: ...
    def n_permitted(self, tokens: Sequence[int]) -> int: ...


class Decoder(Protocol):
    """What a request needs of a StreamDecoder."""

    def push(self, token_id: int) -> str: ...
    def finish(self) -> str: ...


@dataclass(frozen=True)
class Shift:
    """What is done when n_ctx tokens are not enough: the first n_keep and the latest half of the others stay."""

    n_ctx: int
    n_keep: int


@dataclass(frozen=True)
class Limits:
    """Where an answer ends: at max_tokens, at a token of end_ids, before a string of `stop`; and, unless there is a
    shift, where its context is full."""

    max_tokens: int | None = None
    end_ids: Collection[int] = ()
    stop: Sequence[str] = ()
    shift: Shift | None = None


@dataclass(frozen=True)
class Choice:
    """The next tokens of an answer: the first n_accepted of n_drafted ones, and one more; or the error in its place."""

    tokens: list[int]
    n_drafted: int
    n_accepted: int
    error: Exception | None = None


@dataclass(frozen=True)
class Event:
    """Something that a step did for a request.

    n_computed     tokens of the prompt that are in the cache now
    tokens         that were added to the answer
    text           that may be shown now
    finish_reason  None while it goes on; for "error" see request.error
    """

    request: "Request"
    n_computed: int
    tokens: tuple[int, ...] = ()
    text: str = ""
    finish_reason: FinishReason | None = None


def _ignore(event: Event) -> None:
    pass


@dataclass(eq=False)
class Request:
    """What a client wants, and how far it is. `cancel` may be called from anywhere, all else is the engine's thread's.

    ids         the prompt's tokens, then the answer's; what was shifted out is not among them any more
    sampler     of this request alone, as the decoder
    priority    higher goes first
    client      whose request it is: clients take turns
    twin_of     another request with the same prompt, submitted before, whose prompt's KV it waits for and shares
    observe     called with each row of logits f32[n_vocab], as the model gave it, and the token chosen from it
    on_event    called in the engine's thread; if it raises, nobody listens any more and the request is cancelled
    number      in the order of submission
    sequence    its KV while it runs
    awaits      while it waits: who is computing so many of its tokens
    on_cancel   called by `cancel`, wherever that is called from
    """

    ids: list[int]
    sampler: Chooser
    decoder: Decoder
    limits: Limits = field(default_factory=Limits)
    priority: int = 0
    client: Hashable = None
    twin_of: "Request | None" = None
    observe: Callable[[np.ndarray, int], None] | None = None
    on_event: Callable[[Event], None] = _ignore

    text: str = field(default="", init=False)
    finish_reason: FinishReason | None = field(default=None, init=False)
    error: Exception | None = field(default=None, init=False)
    state: State = field(default="waiting", init=False)
    number: int = field(default=0, init=False)
    sequence: KVSequence | None = field(default=None, init=False)
    awaits: "tuple[Request, int] | None" = field(default=None, init=False)
    is_cancelled: bool = field(default=False, init=False)
    on_cancel: Callable[[], None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.ids = list(self.ids)
        self.n_prompt = len(self.ids)
        self.stats = Stats(n_prompt=self.n_prompt)
        self._shifted_out: list[int] = []  # behind the first n_keep of ids
        self._stops = StopFilter(self.limits.stop)
        self._since = time.perf_counter()

    @property
    def token_ids(self) -> list[int]:
        """The answer's tokens, the one that ended it not among them."""
        if not self._shifted_out:
            return self.ids[self.n_prompt :]
        return [*self.ids[: self._n_kept], *self._shifted_out, *self.ids[self._n_kept :]][self.n_prompt :]

    @property
    def n_pending(self) -> int:
        """Tokens whose KV is to be computed before the next one can be chosen."""
        assert self.sequence
        return len(self.ids) - self.sequence.n_tokens

    def cancel(self) -> None:
        """End it before its next token, and the running step if that is for nobody else. Safe in any thread and in
        signal handlers."""
        self.is_cancelled = True
        if self.on_cancel:
            self.on_cancel()

    def start(self, sequence: KVSequence) -> None:
        """Run, for the first time or again."""
        self.sequence, self.state = sequence, "running"
        if not self.stats.queue_ms:
            self.stats.n_cached, self.stats.n_from_disk = sequence.n_cached, sequence.n_from_disk
            self.stats.queue_ms = self._lap()

    def preempt(self) -> None:
        """Give the pages away, with all that they hold left in the cache, and wait."""
        self._release()
        self.state = "waiting"
        self.stats.n_preemptions += 1

    @property
    def is_full(self) -> bool:
        """It goes on only after a shift."""
        return self.limits.shift is not None and len(self.ids) > self.limits.shift.n_ctx

    def shift(self) -> None:
        """Make room in a full context. It has no sequence: what stays is computed anew, as if it had come so."""
        assert self.is_full and self.sequence is None
        n_kept = self._n_kept
        end = n_kept + (len(self.ids) - n_kept) // 2
        self._shifted_out += self.ids[n_kept:end]
        del self.ids[n_kept:end]

    @property
    def _n_kept(self) -> int:
        assert self.limits.shift
        return min(self.limits.shift.n_keep, self.limits.shift.n_ctx // 2)

    def leave(self) -> None:
        """Give the pages away; what was computed stays in the cache."""
        assert self.finish_reason
        self._release()
        self.state = "finished"

    def draftable(self, n_ctx: int) -> int:
        """How many drafted tokens could be of use: the last one that it may have needs no row."""
        left = min(n_ctx, self.limits.shift.n_ctx if self.limits.shift else n_ctx) - len(self.ids)
        if self.limits.max_tokens is not None:
            left = min(left, self.limits.max_tokens - self.stats.n_generated - 1)
        return left

    def permitted(self, draft: list[int]) -> list[int]:
        """As much of it as could come next: to the end of the answer, or to what its grammar forbids."""
        ends = self.limits.end_ids
        n = next((i for i, token in enumerate(draft) if token in ends), len(draft))
        return draft[: self.sampler.n_permitted(draft[:n])] if n else []

    def choose(self, rows: np.ndarray, draft: Sequence[int] = ()) -> Choice:
        """The next tokens: one from each row, as far as what was drafted before it is what was chosen.

        rows  f32[1 + len(draft), n_vocab], read only: logits after the last token, and after each of the draft
        """
        chosen: list[int] = []
        try:
            for row, drafted in zip(rows, (*draft, None), strict=True):
                token = self.sampler.sample(row)
                if self.observe:
                    self.observe(row, token)
                if token not in self.limits.end_ids:
                    self.sampler.accept(token)
                chosen.append(token)
                if token != drafted:
                    break
        except Exception as error:
            return Choice(chosen, len(draft), len(chosen), error)
        return Choice(chosen, len(draft), len(chosen) - 1)

    def follow(self, choice: Choice, n_ctx: int) -> str:
        """Add the tokens of a choice, as far as the answer goes. -> the text that may be shown now.

        What was drafted and is right has its KV already; what only wrong tokens needed is given back.
        """
        assert self.sequence
        text, n_before = "", len(self.ids)
        try:
            for token in choice.tokens:
                text += self.take(token, n_ctx)
                if self.finish_reason:
                    break
            if choice.error and not self.finish_reason:
                raise choice.error
        except Exception as error:
            self.fail(error)
        if choice.n_drafted:
            self.sequence.commit(self.ids[n_before : n_before + choice.n_accepted])
            self.sequence.truncate(self.sequence.n_tokens)
            self.stats.drafts = self.stats.drafts.plus(choice.n_drafted, choice.n_accepted)
        return text

    def take(self, token: int, n_ctx: int) -> str:
        """Add a chosen token. -> the text that may be shown now. Sets finish_reason if the answer ends here."""
        if not self.stats.prompt_ms:
            self.stats.prompt_ms = self._lap()
        else:
            self.stats.generation_ms += self._lap()
        if token in self.limits.end_ids:
            return self.end("stop")
        self.ids.append(token)
        self.stats.n_generated += 1
        text = self._stops.push(self.decoder.push(token))
        self.text += text
        if self._stops.stopped:
            self.finish_reason = "stop"
        elif self.stats.n_generated == self.limits.max_tokens or (len(self.ids) > n_ctx and not self.is_full):
            text += self.end("length")  # the last token needs no place
        return text

    def end(self, reason: FinishReason) -> str:
        """Finish. -> the text that was held back until now."""
        self.finish_reason = reason
        rest = self._stops.push(self.decoder.finish()) + self._stops.finish()
        self.text += rest
        return rest

    def fail(self, error: Exception) -> None:
        """Finish with an error."""
        self.finish_reason, self.error = "error", error

    def event(self, text: str = "", tokens: tuple[int, ...] = ()) -> Event:
        """As it stands."""
        n_computed = self.sequence.n_tokens if self.sequence else 0
        return Event(self, min(n_computed, self.n_prompt), tokens, text, self.finish_reason)

    def _release(self) -> None:
        if self.sequence:
            self.sequence.release(keep=True)
            self.sequence = None

    def _lap(self) -> float:
        """ms since the last lap."""
        since, self._since = self._since, time.perf_counter()
        return 1000 * (self._since - since)
