"""POST /v1/completions, llama-server's own /completion, and /infill: raw text or tokens to be continued."""

from typing import Any

import msgspec

from chenxing.server.failures import invalid, not_enforced
from chenxing.server.protocol.answer import MAX_CHOICES, AnswerFields, check_range

MAX_PROMPTS = 256


class PromptObject(msgspec.Struct, kw_only=True):
    prompt_string: str
    multimodal_data: list[Any] | None = None


Prompt = str | PromptObject | list[Any]


class CompletionRequest(AnswerFields, kw_only=True):
    """OpenAI's."""

    prompt: Prompt
    logprobs: int | bool | None = None
    echo: bool | None = None
    suffix: str | None = None
    best_of: int | None = None

    def check(self) -> None:
        """Raises ApiError."""
        super().check()
        check_range("logprobs", None if isinstance(self.logprobs, bool) else self.logprobs, 0, 1000)
        if self.echo:
            raise not_enforced("echo")
        if self.suffix:
            raise not_enforced("suffix")
        check_range("best_of", self.best_of, self.n_choices, MAX_CHOICES)
        if self.n_candidates > self.n_choices:
            for field in ("stream", "post_sampling_probs"):
                if getattr(self, field):
                    raise invalid(f"best_of: expected n, {self.n_choices}, with {field}, found {self.best_of}")

    @property
    def n_candidates(self) -> int:
        """Answers that are made for each prompt; the n_choices likeliest of them are told."""
        return self.best_of or self.n_choices

    @property
    def n_alternatives(self) -> int | None:
        """Alternatives of each token that are told; None: nothing is told of tokens."""
        if self.logprobs is not None and self.logprobs is not False:
            return int(self.logprobs)
        return self.n_probs or None


class NativeRequest(AnswerFields, kw_only=True):
    """llama-server's."""

    prompt: Prompt
    return_tokens: bool | None = None
    response_fields: list[str] | None = None

    @property
    def n_alternatives(self) -> int | None:
        """Alternatives of each token that are told; None: nothing is told of tokens."""
        return self.n_probs or None


class ExtraFile(msgspec.Struct, kw_only=True):
    text: str
    filename: str = "tmp"


class InfillRequest(AnswerFields, kw_only=True):
    input_prefix: str
    input_suffix: str
    input_extra: list[ExtraFile] | None = None
    prompt: str | None = None
    return_tokens: bool | None = None
    response_fields: list[str] | None = None

    @property
    def n_alternatives(self) -> int | None:
        """Alternatives of each token that are told; None: nothing is told of tokens."""
        return self.n_probs or None


def prompts_of(prompt: Prompt) -> list[list[int | str]]:
    """Each prompt as a list of texts and token ids. Raises ApiError."""
    if isinstance(prompt, str | PromptObject):
        return [[_text(prompt)]]
    if all(isinstance(part, int | str) and not isinstance(part, bool) for part in prompt):
        ids_and_texts: list[int | str] = list(prompt)
        many = all(isinstance(part, str) for part in prompt)
        prompts = [[text] for text in ids_and_texts] if many else [ids_and_texts]
    else:
        prompts = [_one(part, f"prompt[{i}]") for i, part in enumerate(prompt)]
    if not 0 < len(prompts) <= MAX_PROMPTS:
        raise invalid(f"prompt: expected 1 to {MAX_PROMPTS} prompts, found {len(prompts)}")
    return prompts


def _one(part: Any, where: str) -> list[int | str]:
    if isinstance(part, str):
        return [part]
    if isinstance(part, dict):
        try:
            return [_text(msgspec.convert(part, PromptObject))]
        except msgspec.ValidationError as error:
            raise invalid(f"{where}: {error}") from None
    if isinstance(part, list) and all(isinstance(x, int | str) and not isinstance(x, bool) for x in part):
        return part
    raise invalid(f"{where}: expected a string or a list of token ids, found {type(part).__name__}")


def _text(prompt: str | PromptObject) -> str:
    if isinstance(prompt, str):
        return prompt
    if prompt.multimodal_data:
        raise invalid("prompt.multimodal_data: expected none, found some: this server reads text only")
    return prompt.prompt_string
