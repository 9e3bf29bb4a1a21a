"""How a model writes calls: one subclass a form, each in a file of its own, all of them in `forms.py`.

A call is a JSON object {"name": "f", "arguments": {...}}, after what opens it and before what closes it.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chenxing.chat.messages import Message
    from chenxing.chat.template import ChatTemplate
    from chenxing.chat.tools.request import ToolRequest

ANY_TEXT = "(?s:.*)"
"""In llguidance's regular expressions, which are those of Rust."""


class ToolForm(ABC):
    """opening        text that opens a call
    closing        text that closes it, "" if the object's end does
    at_line_start  the opening counts only at the beginning of a line
    n_before       how many characters of the opening stand before the JSON object; the others belong to it

    The grammar rules that a form gives name the arguments of function i `arguments_{i}`; these are defined elsewhere.
    """

    opening: str
    closing: str
    at_line_start: bool
    n_before: int

    @abstractmethod
    def fits(self, template: "ChatTemplate") -> bool:
        """Whether this is the form that the template shows to the model."""

    @abstractmethod
    def conversation(
        self, template: "ChatTemplate", messages: Any, request: "ToolRequest"
    ) -> tuple[list["Message"], list[dict[str, Any]] | None]:
        """Messages and tools to be given to the template."""

    @abstractmethod
    def opening_pattern(self, names: Sequence[str]) -> str:
        """A regular expression of what opens a call of one of these tools; text that goes on is free without it."""

    @abstractmethod
    def call_rules(self, names: Sequence[str]) -> list[str]:
        """Lark rules with `call`, a call of one of these tools."""

    @abstractmethod
    def call_after_text_rules(self, names: Sequence[str]) -> list[str]:
        """Lark rules with `call_after_text`, the same behind text up to its opening. They may use `call_rules`."""

    @abstractmethod
    def next_call_rule(self) -> str:
        """A Lark rule for `next_call`: what separates two calls, and a call."""


def literal(text: str) -> str:
    """A Lark string."""
    return json.dumps(text, ensure_ascii=False)


def escaped(text: str) -> str:
    """In a Lark regular expression, this very text."""
    return re.escape(text).replace("/", r"\/")
