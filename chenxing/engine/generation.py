"""One answer as it comes: an iterator of text with its counts."""

from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue

from chenxing.engine.engine import Engine, Prefill
from chenxing.engine.request import Event, FinishReason, Limits, Request
from chenxing.engine.stats import Stats
from chenxing.sampling import Sampler
from chenxing.tokenizer import Tokenizer


class Generation(Iterator[str]):
    """Iterate for the text, in pieces of whole characters. Attributes tell how far it got.

    text           so far
    token_ids      so far, the token that ended the answer not among them
    finish_reason  None while it runs; "stop" at an end-of-generation token or stop string, "length" at max_tokens or
                   a full context, "cancelled", "error", which iterating raises
    on_end         is called with it when it has ended; not if it is given up before

    Nothing happens before the first piece is asked for. Iterating drives the engine, unless a thread does.
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
        on_end: "Callable[[Generation], None] | None" = None,
    ) -> None:
        self._engine, self._on_prefill, self._on_end = engine, on_prefill, on_end
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._request = Request(
            list(prompt),
            sampler,
            tokenizer.stream_decoder(),
            Limits(max_tokens, sampler.end_ids, tuple(stop)),
            on_event=self._events.put,
        )
        self._pieces = self._run()

    @property
    def text(self) -> str:
        return self._request.text

    @property
    def token_ids(self) -> list[int]:
        return self._request.token_ids

    @property
    def finish_reason(self) -> FinishReason | None:
        return self._request.finish_reason

    @property
    def stats(self) -> Stats:
        return self._request.stats

    def __next__(self) -> str:
        return next(self._pieces)

    def cancel(self) -> None:
        """End the answer, and a step that is for it alone. Safe in any thread and in signal handlers."""
        self._request.cancel()

    def drain(self) -> "Generation":
        """Run to the end."""
        for _ in self:
            pass
        return self

    def _run(self) -> Iterator[str]:
        self._engine.submit(self._request)
        n_computed = 0
        try:
            while True:
                event = self._next_event()
                if event.n_computed > n_computed and self._on_prefill:
                    self._on_prefill(event.n_computed, self._request.n_prompt)
                n_computed = max(n_computed, event.n_computed)
                if event.text:
                    yield event.text
                if event.finish_reason:
                    break
        finally:
            self._request.cancel()  # if it is left before its end
        if self._request.error:
            raise self._request.error
        if self._on_end:
            self._on_end(self)

    def _next_event(self) -> Event:
        while self._events.empty() and not self._engine.is_driven:
            self._engine.step()
        return self._events.get()
