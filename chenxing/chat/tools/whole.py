"""What the events of an answer add up to."""

from typing import NamedTuple

from chenxing.chat.tools.events import ArgumentsDelta, CallStart, ContentDelta, Event, ReasoningDelta


class WholeCall(NamedTuple):
    """arguments: the JSON text, as the model wrote it."""

    id: str
    name: str
    arguments: str


class WholeAnswer:
    """The answer as far as its events were added."""

    def __init__(self) -> None:
        self._content, self._reasoning = list[str](), list[str]()
        self._calls: list[tuple[CallStart, list[str]]] = []

    def add(self, event: Event) -> None:
        match event:
            case ContentDelta(text):
                self._content.append(text)
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case CallStart():
                self._calls.append((event, []))
            case ArgumentsDelta(index, text):
                self._calls[index][1].append(text)

    @property
    def content(self) -> str:
        return "".join(self._content)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    @property
    def calls(self) -> list[WholeCall]:
        return [WholeCall(start.id, start.name, "".join(parts)) for start, parts in self._calls]


def finish_reason(of_the_text: str, n_calls: int) -> str:
    """OpenAI's, of an answer whose text ended so: calls are a reason if the model ended by itself."""
    return "tool_calls" if n_calls and of_the_text == "stop" else of_the_text
