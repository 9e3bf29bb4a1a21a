"""<tool_call>{"name": "f", "arguments": {...}}</tool_call>: Hermes 2 and 3, Qwen 2.5 and 3, and many after them.

The template describes the tools, and shows calls and results in its own way.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chenxing.chat.tools.form import ANY_TEXT, ToolForm, escaped, literal
from chenxing.errors import TemplateError

if TYPE_CHECKING:
    from chenxing.chat.messages import Message
    from chenxing.chat.template import ChatTemplate
    from chenxing.chat.tools.request import ToolRequest

_NAME, _KEY = "cxMARKtool", "cxMARKkey"
_SHOWN = re.compile(
    rf'<tool_call>\s*\{{"name": ?"{_NAME}", ?"arguments": ?\{{"{_KEY}": ?"x"\}}\}}\s*</tool_call>'
    rf'|<tool_call>\s*\{{"arguments": ?\{{"{_KEY}": ?"x"\}}, ?"name": ?"{_NAME}"\}}\s*</tool_call>'
)
_TOOL = {
    "type": "function",
    "function": {
        "name": _NAME,
        "description": "A tool.",
        "parameters": {"type": "object", "properties": {_KEY: {"type": "string", "description": "A key."}}},
    },
}
_CONVERSATION = [
    {"role": "user", "content": "hi"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "call12345", "type": "function", "function": {"name": _NAME, "arguments": f'{{"{_KEY}": "x"}}'}}
        ],
    },
    {"role": "tool", "content": "ok", "name": _NAME, "tool_call_id": "call12345"},
]


class Hermes(ToolForm):
    opening, closing = "<tool_call>", "</tool_call>"
    at_line_start = False
    n_before = len(opening)

    def fits(self, template: "ChatTemplate") -> bool:
        """It describes tools, and shows a call in this form."""
        if self.opening not in template.source or not template.capabilities.tools:
            return False
        try:
            return _SHOWN.search(template.render(_CONVERSATION, tools=[_TOOL]).plain) is not None
        except TemplateError:  # it does not take this conversation
            return False

    def conversation(
        self, template: "ChatTemplate", messages: Any, request: "ToolRequest"
    ) -> tuple[list["Message"], list[dict[str, Any]] | None]:
        return messages, request.tools

    def opening_pattern(self, names: Sequence[str]) -> str:
        return escaped(self.opening)

    def call_rules(self, names: Sequence[str]) -> list[str]:
        heads = [literal(f'{{"name": "{name}", "arguments": ') for name in names]
        objects = [f'object_{i}: {head} arguments_{i} "}}"' for i, head in enumerate(heads)]
        choices = " | ".join(f"object_{i}" for i in range(len(names)))
        return [
            f"call: {literal(self.opening)} body",
            f"body: SPACE? ({choices}) SPACE? {literal(self.closing)}",
            *objects,
        ]

    def call_after_text_rules(self, names: Sequence[str]) -> list[str]:
        return [
            f"opening[lazy]: /{ANY_TEXT}{escaped(self.opening)}/",
            "call_after_text: opening body",
        ]

    def next_call_rule(self) -> str:
        return "next_call: SPACE? call"
