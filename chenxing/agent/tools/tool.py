"""A tool: a typed Python function that a model may call.

@tool(timeout=5)
def weather(city: str, days: Literal[1, 3, 7] = 1) -> str:
    \"\"\"The forecast for a city.

    city   its name in English
    \"\"\"
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

import msgspec

from chenxing.agent.tools.schema import arguments_type, description_of, schema_of
from chenxing.errors import ChenxingError

TIMEOUT = 30.0
"""Seconds that a call may take, by default."""


class ToolError(ChenxingError):
    """What a tool says when it does not do what it was asked: the model is told, and may try something else."""


@dataclass(frozen=True)
class Tool:
    """parameters  JSON schema of the arguments, an object
    check       arguments as a dict of JSON data -> keyword arguments; raises ToolError
    function    called with these, sync or async; its result is text, or JSON data
    changes     it changes something outside, so a person is asked before each call
    preview     keyword arguments -> what that person is shown; None: the arguments
    timeout     seconds
    """

    name: str
    description: str
    parameters: dict[str, Any]
    check: Callable[[dict[str, Any]], dict[str, Any]]
    function: Callable[..., Any]
    changes: bool = False
    preview: Callable[..., str] | None = None
    timeout: float = TIMEOUT

    @property
    def described(self) -> dict[str, Any]:
        """As OpenAI's protocol has it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        return {"type": "function", "function": function}

    def arguments(self, text: str) -> dict[str, Any]:
        """Checked keyword arguments from a call's JSON text. Raises ToolError with what is wrong and where."""
        try:
            given = json.loads(text) if text.strip() else {}
        except (ValueError, RecursionError) as error:
            raise ToolError(f"the arguments are no JSON: {error}") from error
        if not isinstance(given, dict):
            raise ToolError(f"expected the arguments as a JSON object, found {text:.200}")
        return self.check(given)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    changes: bool = False,
    timeout: float = TIMEOUT,
    preview: Callable[..., str] | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    changes: bool = False,
    timeout: float = TIMEOUT,
    preview: Callable[..., str] | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a Tool of a function: name, docstring and annotations are what the model is told.

    Raises AgentError for a parameter that has no type, or one that JSON does not know.
    """

    def make(given: Callable[..., Any]) -> Tool:
        kind = arguments_type(given)
        called, described = name or given.__name__, description_of(given)
        return Tool(called, described, schema_of(kind), _checker(kind), given, changes, preview, timeout)

    return make(function) if function is not None else make


def _checker(kind: type[msgspec.Struct]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def check(given: dict[str, Any]) -> dict[str, Any]:
        try:
            struct = msgspec.convert(given, kind)
        except msgspec.ValidationError as error:
            raise ToolError(f"arguments: {str(error).replace('$.', '')}") from error
        return {name: getattr(struct, name) for name in kind.__struct_fields__}

    return check
