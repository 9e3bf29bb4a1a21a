"""Fields of every request for an answer."""

from typing import Any

import msgspec

from chenxing.server.failures import invalid, not_enforced
from chenxing.server.protocol.sampling import SamplingFields

MAX_CHOICES = 64
MAX_PROBS = 1000  # alternatives of a token that are told
MAX_STOPS = 64


class StreamOptions(msgspec.Struct, kw_only=True):
    include_usage: bool | None = None


class AnswerFields(SamplingFields, kw_only=True):
    """n_probs, post_sampling_probs, timings_per_token, return_progress, id_slot, cache_prompt are llama-server's."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    n_cmpl: int | None = None
    stop: str | list[str] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n_predict: int | None = None
    n_keep: int | None = None
    n_probs: int | None = None
    post_sampling_probs: bool | None = None
    timings_per_token: bool | None = None
    return_progress: bool | None = None
    id_slot: int | None = None
    cache_prompt: bool | None = None
    user: str | None = None
    grammar: str | None = None
    grammar_lazy: bool | None = None
    json_schema: Any = None
    lora: list[Any] | None = None
    adaptive_target: float | None = None
    verbose: bool | None = None

    @property
    def includes_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def n_choices(self) -> int:
        return self.n or self.n_cmpl or 1

    @property
    def length(self) -> int | None:
        """Tokens that are asked for; None: not said; -1: as many as there is room for."""
        for given in (self.max_completion_tokens, self.max_tokens, self.n_predict):
            if given is not None:
                return given
        return None

    @property
    def form(self) -> dict[str, Any]:
        """What the answer must be, as Grammars.any_of takes it; empty: anything."""
        given = {"grammar": self.grammar or None, "json_schema": self.json_schema}
        return {name: value for name, value in given.items() if value is not None}

    def check(self) -> None:
        """Raises ApiError for what the types cannot say, and for what cannot be held."""
        for name, low, high in (
            ("n", 1, MAX_CHOICES),
            ("n_cmpl", 1, MAX_CHOICES),
            ("max_tokens", -1, 2**31 - 1),
            ("max_completion_tokens", -1, 2**31 - 1),
            ("n_predict", -1, 2**31 - 1),
            ("n_keep", -1, 2**31 - 1),
            ("n_probs", 0, MAX_PROBS),
            ("id_slot", -1, 2**31 - 1),
        ):
            check_range(name, getattr(self, name), low, high)
        if len(self.stops) > MAX_STOPS:
            raise invalid(f"stop: expected at most {MAX_STOPS} strings, found {len(self.stops)}")
        if self.lora:
            raise not_enforced("lora")
        if self.adaptive_target is not None and self.adaptive_target >= 0:
            raise not_enforced("adaptive_target")
        if self.grammar_lazy:
            raise not_enforced("grammar_lazy")
        if self.grammar and self.json_schema is not None:
            raise invalid("grammar: expected without json_schema, found both")


def check_range(name: str, value: int | None, low: int, high: int) -> None:
    """Raises ApiError for a number outside of low..high; None is no number."""
    if value is not None and not low <= value <= high:
        raise invalid(f"{name}: expected a number from {low} to {high}, found {value}")
