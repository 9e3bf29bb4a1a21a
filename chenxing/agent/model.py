"""A model as an agent sees it: messages in, an answer out, which may hold calls of tools."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Message = dict[str, Any]
"""As OpenAI's protocol has it: role, content, tool_calls, tool_call_id."""

Choice = Literal["auto", "none", "required"]


@dataclass(frozen=True)
class Call:
    """arguments  JSON text as the model wrote it, which may be none, if it was cut off"""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Usage:
    """Tokens of one answer.

    n_prompt     of the prompt
    n_cached     of these, that were known from before and not computed; None: the server does not say
    n_generated  of the answer
    """

    n_prompt: int = 0
    n_cached: int | None = None
    n_generated: int = 0


@dataclass(frozen=True)
class Piece:
    """Text as it comes: of a thought, or of the answer."""

    kind: Literal["thought", "text"]
    text: str


@dataclass(frozen=True)
class Answer:
    """finish_reason  "stop", "tool_calls", or "length" if it was cut off"""

    text: str
    thought: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = "stop"

    @property
    def message(self) -> Message:
        """For the conversation. The thought is in it, for templates that show it."""
        message: Message = {"role": "assistant", "content": self.text}
        if self.thought:
            message["reasoning_content"] = self.thought
        if self.calls:
            message["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": sound_arguments(c)}}
                for c in self.calls
            ]
        return message


OnPiece = Callable[[Piece], None]


class Model(Protocol):
    async def answer(
        self, messages: list[Message], tools: list[dict[str, Any]], choice: Choice, on_piece: OnPiece
    ) -> Answer:
        """The next message of the assistant.

        tools     as OpenAI's protocol has them
        choice    whether to call: as the model likes, never, or in any case
        on_piece  is told the text as it comes; may be called in another thread

        Raises ChenxingError.
        """
        ...


def sound_arguments(call: Call) -> str:
    """The call's arguments if they are a JSON object, else an empty one: no template takes anything else."""
    try:
        return call.arguments if isinstance(json.loads(call.arguments), dict) else "{}"
    except ValueError:
        return "{}"
