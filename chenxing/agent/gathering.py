"""An answer put together from the events of `chenxing.chat.tools`, and told as it comes."""

from collections.abc import Iterable

from chenxing.agent.model import Answer, Call, OnPiece, Piece, Usage
from chenxing.chat.tools import ContentDelta, Event, ReasoningDelta, WholeAnswer, finish_reason


class Gathering:
    def __init__(self, on_piece: OnPiece) -> None:
        self._on_piece = on_piece
        self._whole = WholeAnswer()

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            self._whole.add(event)
            match event:
                case ContentDelta(text):
                    self._on_piece(Piece("text", text))
                case ReasoningDelta(text):
                    self._on_piece(Piece("thought", text))

    def answer(self, usage: Usage, reason: str) -> Answer:
        """reason: the text's finish_reason."""
        whole = self._whole
        calls = tuple(Call(*call) for call in whole.calls)
        return Answer(whole.content, whole.reasoning, calls, usage, finish_reason(reason, len(calls)))
