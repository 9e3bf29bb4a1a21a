"""Folding: other messages of the same meaning, for templates that do not take the ones given.

Each function returns new messages with one feature removed. All of them work on plain messages (messages.py) and keep
the order of the conversation: the text of a system message stays where it was said.
"""

import json
from collections.abc import Iterator
from itertools import groupby

from chenxing.chat.messages import Message, parsed_arguments, text_of

BLANK_LINE = "\n\n"


def system_into_user(messages: list[Message], *, keep_first: bool = False) -> list[Message]:
    """Each system text goes in front of the next user message; at the end, or before an assistant, it becomes one.

    keep_first  a system message that opens the conversation stays
    """
    out: list[Message] = []
    pending: list[str] = []
    for i, message in enumerate(messages):
        if message["role"] == "system" and not (keep_first and i == 0):
            pending.append(text_of(message))
        elif pending and message["role"] == "user":
            out.append({**message, "content": _joined([*pending, text_of(message)])})
            pending = []
        elif pending and message["role"] == "assistant":
            out += [{"role": "user", "content": _joined(pending)}, message]
            pending = []
        else:
            out.append(message)
    return [*out, {"role": "user", "content": _joined(pending)}] if pending else out


def results_into_user(messages: list[Message]) -> list[Message]:
    """A tool's message becomes the user's, and names the tool."""
    names = {
        call["id"]: call["function"]["name"] for m in messages for call in m.get("tool_calls", ()) if call.get("id")
    }
    out = []
    for message in messages:
        if message["role"] == "tool":
            name = message.get("name") or names.get(message.get("tool_call_id", ""), "the tool")
            message = {"role": "user", "content": f"Result of {name}:\n{text_of(message)}"}
        out.append(message)
    return out


def calls_into_text(messages: list[Message]) -> list[Message]:
    """The assistant's calls become JSON in its text, a line each."""
    out = []
    for message in messages:
        if "tool_calls" in message:
            functions = [call["function"] for call in message["tool_calls"]]
            calls = [{"name": f["name"], "arguments": parsed_arguments(f["arguments"])} for f in functions]
            lines = [json.dumps(call, ensure_ascii=False) for call in calls]
            message = {key: value for key, value in message.items() if key != "tool_calls"}
            message["content"] = _joined([text_of(message), "\n".join(lines)])
        out.append(message)
    return out


def runs_joined(messages: list[Message]) -> list[Message]:
    """User messages in a row become one, assistant messages in a row too."""
    out = []
    for role, run in _runs(messages):
        if role in ("user", "assistant") and len(run) > 1:
            calls = [call for message in run for call in message.get("tool_calls", ())]
            thoughts = [message["reasoning_content"] for message in run if "reasoning_content" in message]
            joined = {**run[0], "content": _joined([text_of(message) for message in run])}
            run = [joined | ({"tool_calls": calls} if calls else {})]
            if thoughts:
                run[0]["reasoning_content"] = _joined(thoughts)
        out += run
    return out


def user_first(messages: list[Message]) -> list[Message]:
    """A conversation that the assistant opens gets an empty user message in front."""
    at = 1 if messages[0]["role"] == "system" else 0
    if at < len(messages) and messages[at]["role"] == "assistant":
        return [*messages[:at], {"role": "user", "content": ""}, *messages[at:]]
    return messages


def all_folded(messages: list[Message], *, keep_first: bool = False) -> list[Message]:
    """Only user and assistant, in turns, the user first: what every chat template takes.

    keep_first  behind the system message that opens the conversation, if there is one
    """
    plain = calls_into_text(results_into_user(messages))
    return user_first(runs_joined(system_into_user(plain, keep_first=keep_first)))


def _runs(messages: list[Message]) -> Iterator[tuple[str, list[Message]]]:
    for role, run in groupby(messages, key=lambda message: message["role"]):
        yield role, list(run)


def _joined(texts: list[str]) -> str:
    return BLANK_LINE.join(text for text in texts if text)
