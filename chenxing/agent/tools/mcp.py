"""Tools of an MCP server, over stdio or HTTP, through the official `mcp` package (the extra `agent`).

A server's tools are foreign code: each call is asked for first. A person who trusts a server may believe what it says
of its tools; then those that say that they only read are called unasked.
"""

import json
import re
import shlex
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TextIO

from chenxing.agent.tools.tool import TIMEOUT, Tool, ToolError
from chenxing.errors import AgentError

if TYPE_CHECKING:
    import mcp

_CONNECT_SECONDS = 30.0


@asynccontextmanager
async def mcp_tools(server: str, *, trusted: bool = False, timeout: float = TIMEOUT) -> AsyncIterator[list[Tool]]:
    """The server's tools while the context is open, which begins and ends in one task.

    server   an http:// or https:// address, or the command line of a program that speaks MCP on stdin and stdout
    trusted  believe it that a tool only reads
    timeout  seconds of a call

    Raises AgentError if there is no such server, or no `mcp`.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        client = _client(server, log)
        try:
            await client.__aenter__()
        except Exception as error:
            raise AgentError(f"MCP server {server!r}: {_reason(error)}{_last_words(log)}") from error
        try:
            yield [_tool(client, each, trusted, timeout) for each in await _listed(client, server)]
        finally:
            await client.__aexit__(None, None, None)


def _client(server: str, log: TextIO) -> "mcp.Client":
    """log  takes what the program says on stderr"""
    try:
        from mcp import Client, StdioServerParameters, stdio_client
    except ImportError as error:
        raise AgentError("MCP servers need the package mcp: pip install 'chenxing[agent]'") from error
    if server.startswith(("http://", "https://")):
        return Client(server, read_timeout_seconds=_CONNECT_SECONDS)
    try:
        command, *arguments = shlex.split(server)
    except ValueError as error:
        raise AgentError(f"MCP server {server!r}: expected an address or a command line: {error}") from error
    parameters = StdioServerParameters(command=command, args=arguments)
    return Client(stdio_client(parameters, errlog=log), read_timeout_seconds=_CONNECT_SECONDS)


async def _listed(client: "mcp.Client", server: str) -> "list[mcp.Tool]":
    tools: list[mcp.Tool] = []
    cursor: str | None = None
    try:
        while True:
            page = await client.list_tools(cursor=cursor)
            tools += page.tools
            cursor = page.next_cursor
            if not cursor:
                return tools
    except Exception as error:
        raise AgentError(f"MCP server {server!r}: its tools cannot be listed: {_reason(error)}") from error


def _tool(client: "mcp.Client", listed: "mcp.Tool", trusted: bool, timeout: float) -> Tool:
    async def call(**arguments: Any) -> str:
        try:
            result = await client.call_tool(listed.name, arguments, read_timeout_seconds=timeout)
        except Exception as error:
            raise ToolError(_reason(error)) from error
        text = "\n".join(_shown(part) for part in result.content)
        if result.is_error:
            raise ToolError(text or "the tool failed")
        if not text and result.structured_content is not None:
            return json.dumps(result.structured_content, ensure_ascii=False)
        return text

    only_reads = trusted and listed.annotations is not None and bool(listed.annotations.read_only_hint)
    return Tool(
        name=re.sub(r"[^A-Za-z0-9_.:/-]", "_", listed.name)[:128],
        description=listed.description or "",
        parameters=_untitled(listed.input_schema),
        check=dict,  # the server checks them
        function=call,
        changes=not only_reads,
        timeout=timeout + 1,
    )


def _untitled(schema: Any) -> Any:
    """Without the titles that servers generate from names, which models take for names."""
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _untitled(item) for key, item in schema.items() if key != "title" or not isinstance(item, str)}


def _shown(part: Any) -> str:
    """Text as it is; of anything else, what it is."""
    return part.text if part.type == "text" else f"[{part.type}, which cannot be shown here]"


def _last_words(log: TextIO) -> str:
    log.seek(0)
    lines = log.read().strip().splitlines()
    return f" (its last words: {lines[-1][:300]})" if lines else ""


def _reason(error: BaseException) -> str:
    """The first cause, where several tasks failed together."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
