"""The tools of a request, checked: `tools`, `tool_choice` and `parallel_tool_calls` of OpenAI's protocol."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from chenxing.chat.messages import plain_list
from chenxing.errors import UsageError

MOST_TOOLS = 512
MOST_CHARACTERS = 1_000_000
"""Of all tools as JSON."""
DEEPEST = 64
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")

Choice = Literal["none", "auto", "required"]


@dataclass(frozen=True)
class Function:
    """parameters  a JSON schema of an object
    strict      what the grammar cannot express of it is an error; otherwise it is left out of the grammar
    where       the place in the request, for errors
    """

    name: str
    description: str
    parameters: dict[str, Any]
    strict: bool
    where: str


@dataclass(frozen=True)
class ToolRequest:
    """tools      as the client sent them, copied
    functions  of these tools, in their order
    choice     whether to call: never, as the model likes, or in any case
    named      the only function that may be called, and then must be, just once
    parallel   an answer may hold several calls
    """

    tools: list[dict[str, Any]]
    functions: tuple[Function, ...]
    choice: Choice
    named: str | None
    parallel: bool

    @property
    def callable_functions(self) -> tuple[Function, ...]:
        return tuple(f for f in self.functions if self.named in (None, f.name))


def tool_request(tools: Any, tool_choice: Any = None, parallel_tool_calls: Any = None) -> ToolRequest | None:
    """None if there are no tools. Raises UsageError naming the field."""
    plain = plain_list(tools, "tools")
    functions = _functions(plain or [])
    choice, named = _choice(tool_choice, [function.name for function in functions])
    if not isinstance(parallel_tool_calls, bool | None):
        raise UsageError(f"parallel_tool_calls: expected true or false, found {parallel_tool_calls!r:.200}")
    if plain is None:
        return None
    return ToolRequest(plain, functions, choice, named, parallel_tool_calls is not False and named is None)


def _functions(tools: list[dict[str, Any]]) -> tuple[Function, ...]:
    if len(tools) > MOST_TOOLS:
        raise UsageError(f"tools: expected at most {MOST_TOOLS}, found {len(tools)}")
    functions: dict[str, Function] = {}
    n_characters = 0
    for i, tool in enumerate(tools):
        function = _function(tool, f"tools[{i}]")
        if function.name in functions:
            first = functions[function.name].where
            raise UsageError(f"{function.where}.name: {function.name!r} is already the name of {first}")
        functions[function.name] = function
        n_characters += _size(tool, f"tools[{i}]")
        if n_characters > MOST_CHARACTERS:
            raise UsageError(f"tools: expected at most {MOST_CHARACTERS} characters of JSON, found more by tools[{i}]")
    return tuple(functions.values())


def _function(tool: dict[str, Any], where: str) -> Function:
    if tool.get("type") != "function":
        raise UsageError(f"{where}.type: expected 'function', found {tool.get('type')!r:.200}")
    where = f"{where}.function"
    function = tool.get("function")
    if not isinstance(function, dict):
        raise UsageError(f"{where}: expected an object, found {function!r:.200}")
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"{where}.name: expected 1 to 128 of A-Z a-z 0-9 _ - . : /, found {name!r:.200}")
    for key, kind, kind_name in (("description", str, "a string"), ("strict", bool, "true or false")):
        if not isinstance(function.get(key), kind | None):
            raise UsageError(f"{where}.{key}: expected {kind_name}, found {function[key]!r:.200}")
    parameters = _parameters(function.get("parameters"), f"{where}.parameters")
    return Function(name, function.get("description") or "", parameters, bool(function.get("strict")), where)


def _parameters(schema: Any, where: str) -> dict[str, Any]:
    if schema is None or schema == {}:  # no arguments: as llama.cpp understands it
        return {"type": "object", "properties": {}}
    if not isinstance(schema, dict):
        raise UsageError(f"{where}: expected a JSON schema, an object, found {schema!r:.200}")
    if schema.get("type", "object") != "object":
        raise UsageError(f"{where}.type: expected 'object', found {schema['type']!r:.200}")
    if _depth(schema) > DEEPEST:
        raise UsageError(f"{where}: nested more than {DEEPEST} deep")
    return schema


def _choice(value: Any, names: list[str]) -> tuple[Choice, str | None]:
    if value is None:
        return "auto", None
    if isinstance(value, str) and value in ("none", "auto", "required"):
        if value == "required" and not names:
            raise UsageError("tool_choice: 'required', but there are no tools")
        return value, None  # type: ignore[return-value]  # one of the three
    function = value.get("function") if isinstance(value, Mapping) and value.get("type") == "function" else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str):
        raise UsageError(
            "tool_choice: expected 'none', 'auto', 'required' or "
            f'{{"type": "function", "function": {{"name": ...}}}}, found {value!r:.200}'
        )
    if name not in names:
        known = f"known are {', '.join(names)}" if names else "there are no tools"
        raise UsageError(f"tool_choice.function.name: no tool is called {name!r:.200}; {known:.500}")
    return "required", name


def _size(tool: dict[str, Any], where: str) -> int:
    try:
        return len(json.dumps(tool, ensure_ascii=False, allow_nan=False))
    except ValueError as error:
        raise UsageError(f"{where}: expected JSON, found a number that is none: {error}") from error


def _depth(value: Any) -> int:
    """Levels of lists and objects. No recursion: it is the measure of what recursion can do."""
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [child for item in level for child in (item.values() if isinstance(item, dict) else item)]
    return depth
