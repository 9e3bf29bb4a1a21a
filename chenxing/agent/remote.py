"""Any server of OpenAI's protocol as an agent's model.

A server that does not know tools gets them described in the system message, and its answer is read for calls, in the
form that the local runtime uses for templates without one.
"""

import json
from collections.abc import AsyncIterator
from random import Random
from typing import TYPE_CHECKING, Any

from chenxing.agent.gathering import Gathering
from chenxing.agent.model import Answer, Choice, Message, OnPiece, Usage
from chenxing.chat import ChatTemplate
from chenxing.chat.tools import (
    AnswerParser,
    ArgumentsDelta,
    CallStart,
    ContentDelta,
    Event,
    Reasoning,
    ReasoningDelta,
    ToolRequest,
    tool_request,
)
from chenxing.chat.tools.generic import Generic
from chenxing.errors import AgentError

if TYPE_CHECKING:
    import aiohttp

MAX_TOKENS = 1024
SILENCE_SECONDS = 600.0
"""How long a server may say nothing: it may be reading a long prompt."""
_NO_TEMPLATE = ChatTemplate("", bos="", eos="")


class RemoteModel:
    """base_url       up to and with /v1
    model          its name there
    tools_as_text  describe tools in the system message from the first answer on
    options        further fields of each request, such as temperature
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        max_tokens: int = MAX_TOKENS,
        tools_as_text: bool = False,
        options: dict[str, Any] | None = None,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise AgentError(f"{base_url!r}: expected an address such as http://127.0.0.1:8080/v1")
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._fields = {"model": model, "max_tokens": max_tokens, **(options or {})}
        self._as_text = tools_as_text

    async def answer(
        self, messages: list[Message], tools: list[dict[str, Any]], choice: Choice, on_piece: OnPiece
    ) -> Answer:
        request = tool_request(tools or None, choice if tools else None)
        if request and not self._as_text:
            try:
                fields = {"messages": messages, "tools": tools, "tool_choice": choice}
                return await self._asked(fields, _Native(), on_piece)
            except _NoTools:
                self._as_text = True
        if request:
            given, _ = Generic().conversation(_NO_TEMPLATE, messages, request)
            return await self._asked({"messages": given}, _FromText(request), on_piece)
        return await self._asked({"messages": messages}, _Native(), on_piece)

    async def _asked(self, fields: dict[str, Any], reader: "_Native | _FromText", on_piece: OnPiece) -> Answer:
        import aiohttp

        body = self._fields | fields | {"stream": True, "stream_options": {"include_usage": True}}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=SILENCE_SECONDS)
        gathering, usage, reason = Gathering(on_piece), Usage(), ""
        try:
            async with aiohttp.ClientSession(timeout=timeout, headers=self._headers) as session:
                async with session.post(self._url, json=body) as reply:
                    if reply.status != 200:
                        raise await self._failure(reply, "tools" in fields)
                    async for chunk in self._chunks(reply):
                        usage = _usage(chunk) or usage
                        for part in chunk.get("choices") or ():
                            gathering.take(reader.read(part.get("delta") or {}))
                            reason = part.get("finish_reason") or reason
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise AgentError(f"{self._url}: {str(error) or type(error).__name__}") from error
        if not reason:
            raise AgentError(f"{self._url}: the answer ended without a finish_reason; the server may have stopped")
        gathering.take(reader.finish())
        return gathering.answer(usage, "stop" if reason == "tool_calls" else reason)

    async def _chunks(self, reply: "aiohttp.ClientResponse") -> AsyncIterator[dict[str, Any]]:
        """The JSON of a stream's events; of a server that does not stream, its one answer as such an event."""
        if reply.content_type == "application/json":
            yield _as_chunk(await reply.json())
            return
        buffer = b""
        async for data in reply.content.iter_any():
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
                    continue
                try:
                    chunk = json.loads(line[5:])
                except ValueError as error:
                    raise AgentError(f"{self._url}: expected JSON, found {line[:200]!r}") from error
                if failure := chunk.get("error"):
                    raise AgentError(f"{self._url}: {_message(failure)}")
                yield chunk

    async def _failure(self, reply: "aiohttp.ClientResponse", has_tools: bool) -> AgentError:
        text = (await reply.text(errors="replace"))[:2000]
        try:
            message = _message(json.loads(text).get("error", text))
        except (ValueError, AttributeError):
            message = text
        kind = _NoTools if has_tools and "tool" in message.lower() and reply.status != 401 else AgentError
        return kind(f"{self._url}: HTTP {reply.status}: {message}")


class _NoTools(AgentError):
    """The server does not take tools."""


class _Native:
    """Deltas of a server that knows tools."""

    def __init__(self) -> None:
        self._indices: dict[Any, int] = {}

    def read(self, delta: dict[str, Any]) -> list[Event]:
        events: list[Event] = []
        if thought := delta.get("reasoning_content") or delta.get("reasoning"):
            events.append(ReasoningDelta(thought))
        if text := delta.get("content"):
            events.append(ContentDelta(text))
        for call in delta.get("tool_calls") or ():
            function, key = call.get("function") or {}, call.get("index", call.get("id"))
            if key not in self._indices:
                self._indices[key] = index = len(self._indices)
                events.append(CallStart(index, call.get("id") or f"call_{index}", function.get("name") or ""))
            if arguments := function.get("arguments"):
                events.append(ArgumentsDelta(self._indices[key], arguments))
        return events

    def finish(self) -> list[Event]:
        return []


class _FromText:
    """Calls in the text of a server that does not."""

    def __init__(self, request: ToolRequest) -> None:
        names = {function.name for function in request.functions} if request.choice != "none" else set()
        self._parser = AnswerParser(Reasoning.POSSIBLE, Generic() if names else None, names, Random())
        self._native = _Native()

    def read(self, delta: dict[str, Any]) -> list[Event]:
        events: list[Event] = []
        for event in self._native.read({key: value for key, value in delta.items() if key != "tool_calls"}):
            events += self._parser.feed(event.text) if isinstance(event, ContentDelta) else [event]
        return events

    def finish(self) -> list[Event]:
        return self._parser.finish()


def _usage(chunk: dict[str, Any]) -> Usage | None:
    found = chunk.get("usage")
    if not found:
        return None
    cached = (found.get("prompt_tokens_details") or {}).get("cached_tokens")
    return Usage(found.get("prompt_tokens") or 0, cached, found.get("completion_tokens") or 0)


def _as_chunk(whole: dict[str, Any]) -> dict[str, Any]:
    choices = [{"delta": c.get("message"), "finish_reason": c.get("finish_reason")} for c in whole.get("choices") or ()]
    return {"choices": choices, "usage": whole.get("usage")}


def _message(error: Any) -> str:
    return str(error.get("message") or error) if isinstance(error, dict) else str(error)
