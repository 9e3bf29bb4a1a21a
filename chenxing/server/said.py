"""What an answer says, in the chat protocol's form: content, reasoning and tool calls, whole or as deltas."""

from collections.abc import Iterable
from typing import Any

from chenxing.chat.tools import ArgumentsDelta, CallStart, ContentDelta, Done, Event, ReasoningDelta


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
    content, reasoning = "", ""
    calls: list[dict[str, Any]] = []
    for event in events:
        match event:
            case ContentDelta(text):
                content += text
            case ReasoningDelta(text):
                reasoning += text
            case CallStart(_, call_id, name):
                calls.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": ""}})
            case ArgumentsDelta(index, text):
                calls[index]["function"]["arguments"] += text
    message: dict[str, Any] = {"role": "assistant", "content": content if content or not calls else None}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = calls
    return message


def reason(finish_reason: str | None, n_calls: int) -> str | None:
    """OpenAI's finish_reason: calls are one if the model ended by itself."""
    return "tool_calls" if n_calls and finish_reason == "stop" else finish_reason
