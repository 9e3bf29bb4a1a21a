"""A conversation: its messages, its settings, and the answers of one model to them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from chenxing.errors import UsageError
from chenxing.terminal.reasoning import CLOSE, OPEN, split_reasoning

if TYPE_CHECKING:
    from chenxing.engine import Generation
    from chenxing.llm import LLM
    from chenxing.sampling import SamplingParams

_RANDOM_SEEDS = (-1, 2**32 - 1)

Message = dict[str, Any]
OnPrefill = Callable[[int, int], None]


@dataclass
class Options:
    """What holds for every answer.

    max_tokens  None: until the model ends or the context is full
    form        the grammar or schema of an answer, under its name in LLM.stream; it begins after the reasoning
    """

    params: "SamplingParams"
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    template_kwargs: dict[str, Any] = field(default_factory=dict)
    raw: bool = False
    form: dict[str, Any] = field(default_factory=dict)


class Session:
    """Messages and answers of one model.

    Invariant between answers: `messages` is empty, or holds at most one system message in front and ends with an
    answer; a question that was not answered at all is taken back.
    """

    def __init__(self, llm: "LLM", options: Options) -> None:
        self.llm, self.options = llm, options
        self.messages: list[Message] = []
        self.answers: list[Generation] = []
        self._replaced: Message | None = None  # the answer that a repeated one will replace
        self._n_repeats = 0

    @property
    def raw(self) -> bool:
        """Every input is completed on its own as plain text: asked for, or the model has no template."""
        return self.options.raw or self.llm.template is None

    @property
    def system(self) -> str | None:
        return self.messages[0]["content"] if self.messages and self.messages[0]["role"] == "system" else None

    @system.setter
    def system(self, text: str | None) -> None:
        if self.raw and text is not None:
            raise UsageError("a system prompt needs a chat template: this session completes plain text")
        rest = self.messages[1:] if self.system is not None else self.messages
        self.messages = [{"role": "system", "content": text}, *rest] if text is not None else rest

    def clear(self) -> None:
        """Forgets everything but the system prompt."""
        self.messages = self.messages[:1] if self.system is not None else []

    def reasoning_opened(self) -> bool:
        """The template itself writes the <think> that opens the reasoning, so answers begin inside it."""
        if self.raw or self.llm.template is None:
            return False
        prompt = self.llm.template.render([{"role": "user", "content": "?"}], **self.options.template_kwargs)
        return prompt.text.rstrip().endswith(OPEN)

    def ask(self, text: str, on_prefill: OnPrefill | None = None) -> "Generation":
        """Starts the answer to `text`. When it has ended call `record`, after an error call `abandon`."""
        self._n_repeats = 0
        if not self.raw:
            self.messages.append({"role": "user", "content": text})
        return self._stream(text if self.raw else list(self.messages), on_prefill)

    def ask_again(self, on_prefill: OnPrefill | None = None) -> "Generation":
        """Starts another answer to the last question. A fixed seed is moved on, or the answer would be the same."""
        if not self.messages or self.messages[-1]["role"] not in ("user", "assistant"):
            raise UsageError("there is nothing to answer again yet")
        self._n_repeats += 1
        if self.messages[-1]["role"] == "assistant":
            self._replaced = self.messages.pop()
        return self._stream(list(self.messages), on_prefill)

    def record(self, generation: "Generation") -> None:
        """Takes the ended answer into the conversation. One that was stopped before its first word is abandoned."""
        self.answers.append(generation)
        if self.raw:
            return
        reasoning, answer = split_reasoning(generation.text, opened=self.reasoning_opened())
        if not reasoning and not answer and generation.finish_reason == "cancelled":
            self.abandon()
            return
        message = {"role": "assistant", "content": answer}
        self.messages.append(message | {"reasoning_content": reasoning} if reasoning else message)
        self._replaced = None

    def abandon(self) -> None:
        """Puts the conversation back to what it was before the question that got no answer."""
        if self._replaced is not None:
            self.messages.append(self._replaced)
        elif self.messages and self.messages[-1]["role"] == "user":
            self.messages.pop()
        self._replaced = None

    def _stream(self, prompt: str | list[Message], on_prefill: OnPrefill | None) -> "Generation":
        options, params = self.options, self.options.params
        if self._n_repeats and params.seed not in _RANDOM_SEEDS:
            params = replace(params, seed=params.seed + self._n_repeats)
        form = options.form
        if form and self.reasoning_opened():
            form = form | {"grammar_after": CLOSE}
        return self.llm.stream(
            prompt,
            params=params,
            max_tokens=options.max_tokens,
            stop=options.stop,
            raw=self.raw,
            on_prefill=on_prefill,
            **form,
            **options.template_kwargs,
        )
