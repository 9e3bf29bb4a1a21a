"""The tools of an agent, and the one way to call them: whatever goes wrong becomes an observation for the model."""

import asyncio
import inspect
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from chenxing.agent.threads import in_thread
from chenxing.agent.tools.tool import Tool, ToolError
from chenxing.errors import AgentError, ChenxingError

MAX_CHARACTERS = 16_000
"""Of a result, by default: about four thousand tokens."""


@dataclass(frozen=True)
class Observation:
    """What a call gave.

    is_error  it was refused, failed, or took too long; text says why
    """

    text: str
    is_error: bool = False


class Toolbox:
    """max_characters  of a result that the model is shown; what is cut off is said"""

    def __init__(self, tools: Iterable[Tool], *, max_characters: int = MAX_CHARACTERS) -> None:
        self.tools: dict[str, Tool] = {}
        self._max = max_characters
        for each in tools:
            if each.name in self.tools:
                raise AgentError(f"two tools are called {each.name!r}")
            self.tools[each.name] = each

    @property
    def described(self) -> list[dict[str, Any]]:
        """All of them, for a model."""
        return [each.described for each in self.tools.values()]

    def question(self, name: str, arguments: str) -> str | None:
        """What a person is to be asked before this call; None if it changes nothing, or fails anyway."""
        found = self.tools.get(name)
        if found is None or not found.changes:
            return None
        try:
            checked = found.arguments(arguments)
            if found.preview:
                return found.preview(**checked)
        except ChenxingError:
            return None
        return f"{name} {arguments}"

    async def call(self, name: str, arguments: str) -> Observation:
        """Run it, within its time. arguments: JSON text.  Never raises but for cancellation."""
        found = self.tools.get(name)
        if found is None:
            return Observation(f"there is no tool {name!r}; there are: {', '.join(self.tools) or 'none'}", True)
        try:
            checked = found.arguments(arguments)
            result = await asyncio.wait_for(_run(found, checked), found.timeout)
            return Observation(self._shortened(_text(result)))
        except TimeoutError:
            return Observation(f"{name} did not end within {found.timeout:g} seconds", True)
        except ChenxingError as error:
            return Observation(self._shortened(str(error)), True)
        except Exception as error:
            return Observation(self._shortened(f"{type(error).__name__}: {error}"), True)

    def _shortened(self, text: str) -> str:
        if len(text) <= self._max:
            return text
        return f"{text[: self._max]}\n[cut off here: {len(text)} characters in all]"


async def _run(found: Tool, arguments: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(found.function):
        return await found.function(**arguments)
    return await in_thread(lambda: found.function(**arguments))


def _text(result: Any) -> str:
    if isinstance(result, str):
        return result
    if result is None:
        return "done"
    try:
        return json.dumps(msgspec.to_builtins(result, str_keys=True), ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ToolError(f"expected text or JSON data as the result, found {type(result).__name__}") from error
