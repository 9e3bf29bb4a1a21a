"""What a template makes of messages, found by trying it: marked messages go in, the marks are looked for in the output.

Reading the source would be guessing; llama.cpp tries its templates likewise (common/jinja/caps.cpp, b11434). Each
question is asked once, and only when a conversation raises it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chenxing.chat.messages import Message
from chenxing.chat.program import RenderError

A, B, C = "cxMARKa", "cxMARKb", "cxMARKc"

_TOOL = {
    "type": "function",
    "function": {
        "name": A,
        "description": "A tool.",
        "parameters": {
            "type": "object",
            "properties": {"place": {"type": "string", "description": "A place."}},
            "required": ["place"],
        },
    },
}
_CALL_ID = "call12345"
"""Nine letters and digits: some templates insist on that."""


def _user(content: Any) -> Message:
    return {"role": "user", "content": content}


def _assistant(content: str) -> Message:
    return {"role": "assistant", "content": content}


def _call(content: str | None, arguments: Any) -> Message:
    function = {"name": "look", "arguments": arguments}
    call = {"type": "function", "id": _CALL_ID, "function": function}
    return {"role": "assistant", "content": content, "tool_calls": [call]}


@dataclass(frozen=True)
class CallForm:
    """How a template wants tool calls.

    no_content  the content of a message that has only calls: "" or None
    as_text     arguments are JSON text, which it writes as it is, not objects, which it writes as JSON or otherwise
    """

    no_content: str | None
    as_text: bool


class Capabilities:
    """render: messages and tools to text, raising RenderError where the template does not take them."""

    def __init__(self, render: Callable[[list[Message], list[dict[str, Any]] | None], str]) -> None:
        self._render = render

    def _try(self, *messages: Message, tools: list[dict[str, Any]] | None = None) -> str:
        try:
            return self._render(list(messages), tools)
        except RenderError:
            return ""

    def _shows(
        self, *messages: Message, tools: list[dict[str, Any]] | None = None, marks: tuple[str, ...] = (A,)
    ) -> bool:
        """Whether the marks come out, in this order. Of a template that shows nothing, the best is assumed."""
        if not self._answers:
            return True
        text, at = self._try(*messages, tools=tools), 0
        for mark in marks:
            at = text.find(mark, at)
            if at < 0:
                return False
        return True

    @cached_property
    def _answers(self) -> bool:
        """A question is shown. Not so if the template is a constant, or fails without some variable of its own."""
        return A in self._try(_user(A)) or self.part_content

    @cached_property
    def string_content(self) -> bool:
        """Content may be a string. Nearly always; if not, it must be a list of parts."""
        return A in self._try(_user(A)) or not self.part_content

    @cached_property
    def part_content(self) -> bool:
        """Content may be a list of parts. A template that prints the list as it is does not count."""
        text = self._try(_user([{"type": "text", "text": A}, {"type": "text", "text": B}]))
        return A in text and B in text and f"'{A}'" not in text and f'"{A}"' not in text

    @cached_property
    def system(self) -> bool:
        """A system message may open the conversation."""
        return self._shows({"role": "system", "content": self._content(A)}, _user(self._content(B)), marks=(A, B))

    @cached_property
    def late_system(self) -> bool:
        """A system message may come later, and is shown there."""
        a, b, c = map(self._content, (A, B, C))
        messages = _user(a), _assistant(self._content("hi")), {"role": "system", "content": b}, _user(c)
        return self._shows(*messages, marks=(A, B, C))

    @cached_property
    def runs(self) -> bool:
        """Two messages of one role may follow each other."""
        u = [_user(self._content(mark)) for mark in (A, B)]
        a = [_assistant(self._content(mark)) for mark in (A, B)]
        return self._shows(*u, marks=(A, B)) and self._shows(u[0], *a, u[1], marks=(A, B))

    @cached_property
    def assistant_first(self) -> bool:
        return self._shows(_assistant(self._content(A)), _user(self._content(B)), marks=(A, B))

    @cached_property
    def tools(self) -> bool:
        """Tools are described to the model."""
        return self._shows(_user(self._content("hi")), tools=[_TOOL])

    @cached_property
    def call_form(self) -> CallForm | None:
        """The form in which the assistant's tool calls are shown, None if they are not."""
        if not self._answers:
            return CallForm("", False)
        for form in (CallForm(n, t) for n in ("", None) for t in (False, True)):
            call = _call(form.no_content, f'{{"{A}": "{B}"}}' if form.as_text else {A: B})
            text = self._try(_user(self._content("hi")), call, self._result("ok"), tools=[_TOOL])
            as_python, quoted_twice = f"'{A}': '{B}'", f'\\"{A}'
            if A in text and B in text and as_python not in text and quoted_twice not in text:
                return form
        return None

    @cached_property
    def tool_results(self) -> bool:
        """A tool's message is shown."""
        form = self.call_form
        if form is None:
            call = _assistant(self._content(B))
        else:
            call = _call(form.no_content, f'{{"place": "{B}"}}' if form.as_text else {"place": B})
        return self._shows(_user(self._content("hi")), call, self._result(A), tools=[_TOOL])

    def _content(self, text: str) -> Any:
        return text if self.string_content else [{"type": "text", "text": text}]

    def _result(self, text: str) -> Message:
        return {"role": "tool", "content": self._content(text), "name": "look", "tool_call_id": _CALL_ID}
