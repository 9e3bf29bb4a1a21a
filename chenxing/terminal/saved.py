"""Saved conversations: a JSON list of messages, as chat APIs and `chenxing template` take it."""

import json
from pathlib import Path
from typing import Any

from chenxing.errors import ChenxingError, UsageError


def save_messages(path: Path, messages: list[dict[str, Any]]) -> None:
    """Writes `messages`; replaces an older saved conversation, but no other file. Raises ChenxingError."""
    try:
        if path.exists():
            load_messages(path)
    except ChenxingError as error:
        raise ChenxingError(f"{path} exists and is no saved conversation: expected another file name") from error
    text = json.dumps(messages, ensure_ascii=False, indent=2) + "\n"
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ChenxingError(f"{path}: cannot be written: {error.strerror}") from error


def load_messages(path: Path) -> list[dict[str, Any]]:
    """The messages in `path`. Raises ChenxingError for a file that is missing or is no list of messages."""
    from chenxing.chat.messages import plain_messages

    try:
        data = path.read_bytes()
    except OSError as error:
        raise ChenxingError(f"{path}: {error.strerror}: expected a saved conversation") from error
    try:
        return plain_messages(parse_conversation(data, str(path))["messages"])
    except UsageError as error:
        raise ChenxingError(f"{path}: {error}") from error


def parse_conversation(data: bytes, source: str) -> dict[str, Any]:
    """UTF-8 JSON as {"messages": […], …}: a list of messages, or an object with that list and further keys.

    Those in `chat_template_kwargs`, where chat APIs have the template's variables, stand beside the others.

    The messages themselves are not looked at. Raises ChenxingError that names `source`.
    """
    try:
        body = json.loads(data.decode("utf-8"))
    except json.JSONDecodeError as error:
        found = f"{error.msg} at line {error.lineno} column {error.colno}" if data.strip() else "nothing"
    except UnicodeDecodeError as error:
        found = f"no UTF-8 at byte {error.start}"
    except RecursionError:
        found = "values nested too deeply"
    else:
        body = {"messages": body} if isinstance(body, list) else body
        if isinstance(body, dict) and isinstance(body.get("messages"), list):
            more = body.pop("chat_template_kwargs", None)
            return body | more if isinstance(more, dict) else body
        found = "an object without one in `messages`" if isinstance(body, dict) else type(body).__name__
    raise ChenxingError(f"{source}: expected a JSON list of messages, found {found}")
