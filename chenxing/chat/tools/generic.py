"""{"name": "f", "arguments": {...}} on a line of its own: for templates that have no form of their own, or none known.

The tools are described at the end of the system message, which is added if there is none. Calls in the history become
lines of the assistant's text, as the model wrote them; results become messages of the user's ("Result of f:").
"""

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chenxing.chat import fold
from chenxing.chat.messages import Message, plain_messages, text_of
from chenxing.chat.tools.form import ANY_TEXT, ToolForm, escaped, literal

if TYPE_CHECKING:
    from chenxing.chat.template import ChatTemplate
    from chenxing.chat.tools.request import ToolRequest

_INSTRUCTION = """\
# Tools

You can call these tools:
{tools}

To call a tool, write a line of JSON in this form, with arguments that fit its parameters:
{{"name": "TOOL", "arguments": {{"PARAMETER": "VALUE"}}}}
Write one such line for each call and nothing after the last one; you are then given the results.
If you need no tool, answer in plain text."""
_JSON_SPACE = r"[ \t\r\n]*"
_WORD = re.compile(r"\w+")


class Generic(ToolForm):
    opening, closing = '{"name"', ""
    at_line_start = True
    n_before = 0

    def fits(self, template: "ChatTemplate") -> bool:
        """Every template: it only needs text."""
        return True

    def conversation(
        self, template: "ChatTemplate", messages: Any, request: "ToolRequest"
    ) -> tuple[list[Message], list[dict[str, Any]] | None]:
        plain = plain_messages(messages, set(_WORD.findall(template.source)))  # the template looks at roles again
        for message in plain:
            if message["role"] == "developer":
                message["role"] = "system"
        folded = fold.calls_into_text(fold.results_into_user(plain))
        return _with_instruction(folded, instruction(request)), None

    def opening_pattern(self, names: Sequence[str]) -> str:
        """At a line's beginning, with the name: other JSON is text."""
        any_name = "|".join(map(escaped, names))
        return rf'\{{"name"{_JSON_SPACE}:{_JSON_SPACE}"({any_name})"'

    def call_rules(self, names: Sequence[str]) -> list[str]:
        starts = [literal(f'{{"name": "{name}"') for name in names]
        choices = " | ".join(f"{start} rest_{i}" for i, start in enumerate(starts))
        before_arguments = literal(', "arguments": ')
        rests = [f'rest_{i}: {before_arguments} arguments_{i} "}}"' for i in range(len(names))]
        return [f"call: {choices}", *rests]

    def call_after_text_rules(self, names: Sequence[str]) -> list[str]:
        openings = [
            f"opening_{i}[lazy]: /({ANY_TEXT}\\n)?{self.opening_pattern([name])}/" for i, name in enumerate(names)
        ]
        choices = " | ".join(f"opening_{i} rest_{i}" for i in range(len(names)))
        return [*openings, f"call_after_text: {choices}"]

    def next_call_rule(self) -> str:
        return r'next_call: "\n" call'


def instruction(request: "ToolRequest") -> str:
    """What the model is told about the tools. It does not depend on tool_choice, so the prompt stays the same."""
    described = [
        {"name": f.name} | ({"description": f.description} if f.description else {}) | {"parameters": f.parameters}
        for f in request.functions
    ]
    return _INSTRUCTION.format(tools="\n".join(json.dumps(tool, ensure_ascii=False) for tool in described))


def _with_instruction(messages: list[Message], text: str) -> list[Message]:
    if messages[0]["role"] != "system":
        return [{"role": "system", "content": text}, *messages]
    first = messages[0]
    joined = fold.BLANK_LINE.join(part for part in (text_of(first), text) if part)
    return [{**first, "content": joined}, *messages[1:]]
