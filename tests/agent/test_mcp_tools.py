"""A real MCP server: mcp-server-time, over stdio, and one of the package's own making over HTTP."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time

import pytest

from chenxing.agent.tools import Toolbox
from chenxing.agent.tools.mcp import mcp_tools
from chenxing.errors import AgentError

pytest.importorskip("mcp")

TOKYO = {"source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo"}


def test_a_server_over_stdio():
    pytest.importorskip("mcp_server_time")

    async def run():
        command = f'"{sys.executable}" -m mcp_server_time --local-timezone Europe/Berlin'
        async with mcp_tools(command.replace("\\", "/"), trusted=True) as tools:
            box = Toolbox(tools)
            assert set(box.tools) == {"get_current_time", "convert_time"}
            described = box.tools["convert_time"]
            assert described.parameters["required"] == list(TOKYO) and "timezones" in described.description
            assert "title" not in json.dumps(described.parameters)
            assert not described.changes, "it says that it only reads, and is trusted"
            # the calls of a graph's nodes come from other tasks
            found = await asyncio.create_task(box.call("convert_time", json.dumps(TOKYO)))
            assert not found.is_error and json.loads(found.text)["target"]["timezone"] == "Asia/Tokyo"
            wrong = await box.call("convert_time", json.dumps(TOKYO | {"target_timezone": "Nowhere"}))
            assert wrong.is_error and "Nowhere" in wrong.text
            assert (await box.call("convert_time", "{}")).is_error

    asyncio.run(run())


SERVER = """
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("shop")

@server.tool()
def price(item: str, n: int = 1) -> str:
    "The price of an item."
    return f"{item}: {n * 7}"

server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
"""


def test_a_server_over_http():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(port)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None
            time.sleep(0.1)

        async def run():
            async with mcp_tools(f"http://127.0.0.1:{port}/mcp") as tools:
                box = Toolbox(tools)
                assert box.question("price", '{"item": "tea"}') == 'price {"item": "tea"}', "it is not trusted"
                return await box.call("price", '{"item": "tea", "n": 3}')

        assert asyncio.run(run()).text == "tea: 21"
    finally:
        server.kill()
        server.wait()


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("no-such-program-here --x", "no-such-program-here"),
        (f'"{sys.executable}" -c "raise SystemExit(\'gone\')"', "its last words: gone"),
        ("http://127.0.0.1:9/mcp", "MCP server 'http://127.0.0.1:9/mcp'"),
        ('"unclosed', "expected an address or a command line"),
    ],
)
def test_servers_that_are_none(server, message):
    async def run():
        async with mcp_tools(server.replace("\\", "/") if os.name == "nt" else server):
            raise AssertionError("it must not open")

    with pytest.raises(AgentError, match=message):
        asyncio.run(run())
