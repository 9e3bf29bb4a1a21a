"""What an answer turns out to be, piece by piece, as its text comes in."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ContentDelta:
    text: str


@dataclass(frozen=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True)
class CallStart:
    """A tool is called. Its arguments follow; they are empty here.

    index  of the call in the answer, from 0
    id     names the call in the messages that follow
    """

    index: int
    id: str
    name: str


@dataclass(frozen=True)
class ArgumentsDelta:
    """A piece of the JSON text of a call's arguments, as the model wrote it."""

    index: int
    text: str


@dataclass(frozen=True)
class Done:
    """The last event. With calls, OpenAI's finish_reason is "tool_calls" if the model stopped by itself."""

    n_calls: int


Event = ContentDelta | ReasoningDelta | CallStart | ArgumentsDelta | Done
