"""Slots as llama-server's clients know them: numbered places for answers, each with its last conversation.

The engine has no such places: any request finds any prefix. A slot's number is only for showing and naming.
"""

from dataclasses import dataclass, field

from chenxing.server.answers import Answer


@dataclass
class Slot:
    """answer     who is in it
    ids           tokens of the conversation that was last in it
    """

    number: int
    answer: Answer | None = None
    ids: list[int] = field(default_factory=list)


class Slots:
    def __init__(self, n_slots: int) -> None:
        self.all = [Slot(number) for number in range(n_slots)]
        self._of: dict[int, Slot] = {}

    def occupy(self, answer: Answer, number: int | None) -> None:
        """Put it into the slot that it asks for, or into a free one; if there is none, it has no number."""
        asked = [self.all[number]] if number is not None and 0 <= number < len(self.all) else self.all
        for slot in asked:
            if slot.answer is None:
                slot.answer = answer
                self._of[id(answer)] = slot
                return

    def leave(self, answer: Answer) -> None:
        """Its conversation stays as the slot's last."""
        slot = self._of.pop(id(answer), None)
        if slot:
            slot.answer, slot.ids = None, list(answer.request.ids)

    def number(self, answer: Answer) -> int:
        """-1, as llama-server says, if it has none."""
        slot = self._of.get(id(answer))
        return slot.number if slot else -1
