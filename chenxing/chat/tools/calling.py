"""Tools in a conversation with one model: what is rendered, what the answer must follow, how it is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any

from chenxing.chat.messages import Message
from chenxing.chat.template import ChatTemplate, Prompt
from chenxing.chat.tools.form import ToolForm
from chenxing.chat.tools.forms import form_of
from chenxing.chat.tools.grammar import answer_grammar
from chenxing.chat.tools.parser import AnswerParser
from chenxing.chat.tools.reasoning import Reasoning, reasoning_of
from chenxing.chat.tools.request import ToolRequest


class ToolCalling:
    """Of a model's template. Immutable; may be used from several threads."""

    def __init__(self, template: ChatTemplate) -> None:
        self.template = template

    @cached_property
    def form(self) -> ToolForm:
        """How this model writes calls."""
        return form_of(self.template)

    def conversation(
        self, messages: Any, request: ToolRequest | None
    ) -> tuple[Sequence[Message], list[dict[str, Any]] | None]:
        """Messages and tools for `ChatTemplate.render`. tool_choice changes neither, so the prompt's KV stays good."""
        if request is None:
            return messages, None
        return self.form.conversation(self.template, messages, request)

    def render(self, messages: Any, request: ToolRequest | None, **kwargs: Any) -> "ToolPrompt":
        """The prompt, with what follows from it. kwargs and errors are those of `ChatTemplate.render`."""
        given, tools = self.conversation(messages, request)
        prompt = self.template.render(given, tools=tools, **kwargs)
        used = self.template.tool_use if tools and self.template.tool_use else self.template
        form = self.form if request else None
        return ToolPrompt(prompt, request, form, reasoning_of(used.source, prompt.plain))


@dataclass(frozen=True)
class ToolPrompt:
    """form  how calls are written, None without tools"""

    prompt: Prompt
    request: ToolRequest | None
    form: ToolForm | None
    reasoning: Reasoning

    def grammar(self, content: dict[str, Any] | None = None) -> str | None:
        """What the answer must follow, as Lark; None if there are no tools. It covers the thought.

        content  schema of what is no call, as llguidance takes it; None: any text
        """
        if self.form is None or self.request is None:
            return None
        return answer_grammar(self.form, self.request, self.reasoning, content)

    def parser(self, rng: Random) -> AnswerParser:
        """For one answer's text."""
        can_call = self.request is not None and self.request.choice != "none"
        names = {f.name for f in self.request.callable_functions} if self.request and can_call else set()
        return AnswerParser(self.reasoning, self.form if can_call else None, names, rng)
