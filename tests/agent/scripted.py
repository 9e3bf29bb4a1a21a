"""A model that says what a test tells it to."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from chenxing.agent.model import Answer, Call, Choice, Message, OnPiece, Piece, Usage


def says(text: str, *calls: tuple[str, dict[str, Any]], thought: str = "", reason: str = "stop") -> Answer:
    """An answer; calls as name and arguments."""
    made = tuple(Call(f"call_{i}", name, json.dumps(given)) for i, (name, given) in enumerate(calls))
    return Answer(text, thought, made, Usage(10, 4, 3), "tool_calls" if made else reason)


@dataclass
class ScriptedModel:
    """Gives the answers in turn; a function is called with the messages. `asked` keeps what it was given."""

    answers: Sequence[Answer | Callable[[list[Message]], Answer]]
    asked: list[tuple[list[Message], Choice]] = field(default_factory=list)

    async def answer(
        self, messages: list[Message], tools: list[dict[str, Any]], choice: Choice, on_piece: OnPiece
    ) -> Answer:
        given = self.answers[len(self.asked)]
        self.asked.append((messages, choice))
        answer = given if isinstance(given, Answer) else given(messages)
        if answer.text:
            on_piece(Piece("text", answer.text))
        return answer
