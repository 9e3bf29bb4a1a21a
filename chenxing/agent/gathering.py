"""An answer put together from the events of `chenxing.chat.tools`."""

from collections.abc import Iterable

from chenxing.agent.model import Answer, Call, OnPiece, Piece, Usage
from chenxing.chat.tools import ArgumentsDelta, CallStart, ContentDelta, Event, ReasoningDelta


class Gathering:
    def __init__(self, on_piece: OnPiece) -> None:
        self._on_piece = on_piece
        self._text, self._thought = list[str](), list[str]()
        self._calls: list[tuple[str, str, list[str]]] = []

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case ContentDelta(text):
                    self._text.append(text)
                    self._on_piece(Piece("text", text))
                case ReasoningDelta(text):
                    self._thought.append(text)
                    self._on_piece(Piece("thought", text))
                case CallStart(_, id, name):
                    self._calls.append((id, name, []))
                case ArgumentsDelta(index, text):
                    self._calls[index][2].append(text)

    def answer(self, usage: Usage, finish_reason: str) -> Answer:
        calls = tuple(Call(id, name, "".join(parts)) for id, name, parts in self._calls)
        reason = "tool_calls" if calls and finish_reason == "stop" else finish_reason
        return Answer("".join(self._text), "".join(self._thought), calls, usage, reason)
