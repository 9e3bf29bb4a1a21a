"""Message lists as clients send them, checked and made plain.

A plain message is a dict of our own with `role` (known), `content` (str, or a list of text parts if there is more than
one) and, where given, `reasoning_content`, `name`, `tool_call_id` and `tool_calls` (each with type, function.name and
function.arguments, an object or the client's JSON text, which is sound). Everything in it is JSON data.
"""

import json
import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chenxing.errors import UsageError

ROLES = frozenset(("system", "developer", "user", "assistant", "tool"))
_ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SURROGATE = re.compile("[\ud800-\udfff]")

Message = dict[str, Any]


def plain_messages(messages: Any, template_roles: Iterable[str] = ()) -> list[Message]:
    """Checked copies. template_roles: strings of the template, where a role beyond the usual ones must be named.

    Raises UsageError naming the index and the field.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, (str, bytes)) or not messages:
        raise UsageError(f"messages: expected a list of at least one message, found {_found(messages)}")
    return [_message(message, f"messages[{i}]", template_roles) for i, message in enumerate(messages)]


def plain_list(values: Any, where: str) -> list[dict[str, Any]] | None:
    """Tools or documents: a checked copy, None if there are none."""
    if values is None:
        return None
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
        raise UsageError(f"{where}: expected a list of objects, found {_found(values)}")
    return [_object(value, f"{where}[{i}]") for i, value in enumerate(values)] or None


def text_of(message: Message, separator: str = "\n") -> str:
    """The content as one string. llama.cpp joins parts with a line break."""
    content = message["content"]
    return content if isinstance(content, str) else separator.join(part["text"] for part in content)


def _message(message: Any, where: str, template_roles: Iterable[str]) -> Message:
    out = _object(message, where)
    out = {key: value for key, value in out.items() if value is not None}
    out["role"] = _role(out, where, template_roles)
    if "reasoning" in out:  # some servers call it so
        out.setdefault("reasoning_content", out.pop("reasoning"))
    if "tool_calls" in out:
        calls = out["tool_calls"]
        if not isinstance(calls, list):
            raise UsageError(f"{where}.tool_calls: expected a list, found {_found(calls)}")
        out["tool_calls"] = [_tool_call(call, f"{where}.tool_calls[{i}]") for i, call in enumerate(calls)]
        if not calls:
            del out["tool_calls"]
    if "content" not in message and not out.keys() & {"tool_calls", "reasoning_content"}:
        raise UsageError(f"{where}: expected 'content' or 'tool_calls', found neither")
    out["content"] = _content(out.get("content"), f"{where}.content")
    for key in ("reasoning_content", "name", "tool_call_id"):
        if not isinstance(out.get(key, ""), str):
            raise UsageError(f"{where}.{key}: expected a string, found {_found(out[key])}")
    return out


def _role(message: Message, where: str, template_roles: Iterable[str]) -> str:
    role = message.get("role")
    if not isinstance(role, str):
        raise UsageError(f"{where}.role: expected a string, found {_found(role)}")
    if role == "function":  # the name of "tool" in OpenAI's first protocol
        return "tool"
    if role in ROLES or (_ROLE.fullmatch(role) and role in template_roles):
        return role
    raise UsageError(f"{where}.role: expected one of {', '.join(sorted(ROLES))}, found {role!r}")


def _content(content: Any, where: str) -> str | list[dict[str, Any]]:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise UsageError(f"{where}: expected a string, a list of parts or null, found {_found(content)}")
    for i, part in enumerate(content):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise UsageError(f"{where}[{i}]: expected an object with 'type', found {_found(part)}")
        if part["type"] != "text":
            raise UsageError(f"{where}[{i}].type: expected 'text', found {part['type']!r}: only text is understood")
        if not isinstance(part.get("text"), str):
            raise UsageError(f"{where}[{i}].text: expected a string, found {_found(part.get('text'))}")
    if len(content) > 1:
        return content
    return content[0]["text"] if content else ""


def _tool_call(call: Any, where: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise UsageError(f"{where}: expected an object with 'function', which has a 'name', found {_found(call)}")
    call = {key: value for key, value in call.items() if value is not None}
    if not isinstance(call.get("id", ""), str):
        raise UsageError(f"{where}.id: expected a string, found {_found(call['id'])}")
    if call.get("type", "function") != "function":
        raise UsageError(f"{where}.type: expected 'function', found {call['type']!r}")
    arguments = function.get("arguments") or {}
    where = f"{where}.function.arguments"
    try:
        parsed = parsed_arguments(arguments)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: expected JSON, found {_found(arguments)}: {error}") from error
    if not isinstance(parsed, dict):
        raise UsageError(f"{where}: expected an object, found {_found(parsed)}")
    return {**call, "type": "function", "function": {**function, "arguments": arguments}}


def parsed_arguments(arguments: Any) -> Any:
    """A call's arguments as an object, from the JSON text that clients send. Text of nothing means none."""
    if not isinstance(arguments, str):
        return arguments
    return _plain(json.loads(arguments), "arguments") if arguments.strip() else {}


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{where}: expected an object, found {_found(value)}")
    try:
        plain = _plain(value, where)
    except RecursionError as error:
        raise UsageError(f"{where}: nested too deeply") from error
    assert isinstance(plain, dict)
    return plain


def _plain(value: Any, where: str) -> Any:
    """A deep copy of JSON data. A lone surrogate, which JSON can spell and UTF-8 cannot, becomes U+FFFD."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise UsageError(f"{where}: expected keys that are strings, found {key!r}")
        return {_plain(key, where): _plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [_plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    raise UsageError(f"{where}: expected JSON data, found {_found(value)}")


def _found(value: Any) -> str:
    """For an error message: what kind of JSON value it is, and a glimpse of it."""
    if value is None:
        return "nothing"
    names = {dict: "an object", list: "a list", tuple: "a list", str: "a string", bool: "a boolean"}
    name = names.get(type(value), "a number" if isinstance(value, (int, float)) else type(value).__name__)
    return f"{name}: {reprlib.repr(value)}"
