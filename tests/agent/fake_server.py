"""A server of OpenAI's protocol that says what a test tells it to."""

import asyncio
import json
import threading
from typing import Any

from aiohttp import web


def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def text_chunks(text: str, reason: str = "stop") -> list[dict[str, Any]]:
    """A streamed answer, a character at a time."""
    return [*(chunk({"content": c}) for c in text), chunk({}, reason)]


def call_chunks(name: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    text = json.dumps(arguments)
    first = {"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": ""}}
    pieces = [chunk({"tool_calls": [{"index": 0, "function": {"arguments": c}}]}) for c in text]
    return [chunk({"tool_calls": [first]}), *pieces, chunk({}, "tool_calls")]


USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 16}}


class FakeServer:
    """replies  in turn: a list of chunks is streamed, a response is sent. `asked` keeps bodies and headers."""

    def __init__(self, replies: list[Any]) -> None:
        self.replies, self.asked = replies, list[dict[str, Any]]()
        self.headers: list[dict[str, str]] = []
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "FakeServer":
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _run(self) -> None:
        self._loop.run_until_complete(self._start())
        self._loop.run_forever()
        self._loop.run_until_complete(self._runner.cleanup())
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        self._ready.set()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(await request.json())
        self.headers.append(dict(request.headers))
        reply = self.replies[len(self.asked) - 1]
        if not isinstance(reply, list):
            status, body = reply
            return web.json_response(body, status=status)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        for item in [*reply, {"choices": [], "usage": USAGE}]:
            await stream.write(f"data: {json.dumps(item)}\n\n".encode())
        await stream.write(b"data: [DONE]\n\n")
        return stream
