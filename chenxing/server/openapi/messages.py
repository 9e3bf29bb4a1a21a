"""A chat's messages as structs, for the document only: the server itself reads them in chenxing.chat.

A test gives the server what these allow and what they do not.
"""

from typing import Literal

from msgspec import Struct

from chenxing.server.openapi.answers import ToolCall


class TextPart(Struct, kw_only=True):
    type: Literal["text"]
    text: str


class InputMessage(Struct, kw_only=True):
    """Further members go to the chat template as they are."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None
    reasoning_content: str | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
