"""A model that says what a test tells it to, with the public face of chenxing.llm.LLM."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from chenxing.engine import Stats
from chenxing.sampling import SamplingParams

Piece = str | Callable[["FakeGeneration"], None] | Exception


@dataclass
class FakeGeneration:
    """Yields its script: texts as they are; functions are called (to press Ctrl-C), exceptions raised."""

    script: Sequence[Piece]
    max_tokens: int | None = None
    on_prefill: Callable[[int, int], None] | None = None
    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    stats: Stats = field(default_factory=lambda: Stats(n_prompt=20, n_cached=5, prompt_ms=30.0))
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True

    def __iter__(self) -> Iterator[str]:
        if self.on_prefill:
            self.on_prefill(10, 20)
            self.on_prefill(20, 20)
        for piece in self.script:
            if callable(piece):
                piece(self)
                continue
            if isinstance(piece, Exception):
                raise piece
            if self.cancelled or self.stats.n_generated == self.max_tokens:
                break
            self.text += piece
            self.stats.generation_ms += 10 if self.stats.n_generated else 0  # the first token belongs to the prompt
            self.stats.n_generated += 1
            yield piece
        complete = self.text == "".join(piece for piece in self.script if isinstance(piece, str))
        self.finish_reason = "cancelled" if self.cancelled else "stop" if complete else "length"


class FakeTemplate:
    """Joins messages as `role: content`; `opening` stands at the end of every prompt."""

    def __init__(self, opening: str) -> None:
        self.opening = opening

    def render(self, messages: list[dict[str, Any]], **_kwargs: Any) -> SimpleNamespace:
        lines = [f"{message['role']}: {message['content']}\n" for message in messages]
        return SimpleNamespace(text="".join(lines) + "assistant: " + self.opening, guard=None)


class FakeLLM:
    """Answers with `scripts` in turn; `calls` keeps what `stream` was asked."""

    def __init__(self, *scripts: Sequence[Piece], template: bool = True, opening: str = "") -> None:
        self.scripts = list(scripts)
        self.template = FakeTemplate(opening) if template else None
        self.calls: list[SimpleNamespace] = []
        self.closed = False
        self.path, self.gguf = Path("models/fake.gguf"), SimpleNamespace(architecture="llama")
        self.n_ctx, self.n_ctx_train, self.n_threads, self.isa = 2048, 8192, 2, "avx2"
        self.weights_bytes, self.weights_origin, self.kv_bytes = 98_000_000, "mapped from the cache", 47_000_000
        self.notices: list[str] = []
        self.cache_stats = SimpleNamespace(n_tokens=1200, n_bytes_ram=53_500_000, n_bytes_disk=48_100_000)
        self.sampling_defaults = SamplingParams(temp=0.6)

    def stream(
        self,
        prompt: str | list[dict[str, Any]],
        *,
        params: SamplingParams | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        raw: bool = False,
        on_prefill: Callable[[int, int], None] | None = None,
        **template_kwargs: Any,
    ) -> FakeGeneration:
        call = SimpleNamespace(prompt=prompt, params=params, max_tokens=max_tokens, stop=stop, raw=raw)
        call.template_kwargs = template_kwargs
        self.calls.append(call)
        script = self.scripts.pop(0)
        if isinstance(script, Exception):
            raise script
        return FakeGeneration(script, max_tokens, on_prefill)

    def close(self) -> None:
        self.closed = True
