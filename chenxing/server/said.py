"""What an answer says, in the chat protocol's form: content, reasoning and tool calls, whole or as deltas."""

from collections.abc import Iterable
from typing import Any

from chenxing.chat.tools import ArgumentsDelta, CallStart, ContentDelta, Done, Event, ReasoningDelta, WholeAnswer


def delta_of(event: Event) -> dict[str, Any] | None:
    """A chunk's `delta`; None where the event is none. A call begins with its name and empty arguments."""
    match event:
        case ContentDelta(text):
            return {"content": text}
        case ReasoningDelta(text):
            return {"reasoning_content": text}
        case CallStart(index, call_id, name):
            function = {"name": name, "arguments": ""}
            return {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}
        case ArgumentsDelta(index, text):
            return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
        case Done():
            return None


def message_of(events: Iterable[Event]) -> dict[str, Any]:
    """The assistant's message. Members that there is nothing for are left out; content is null beside calls alone."""
    whole = WholeAnswer()
    for event in events:
        whole.add(event)
    content, reasoning, calls = whole.content, whole.reasoning, whole.calls
    message: dict[str, Any] = {"role": "assistant", "content": content if content or not calls else None}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    return message
