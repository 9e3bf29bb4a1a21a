"""A server that serves the real pages and says what a test tells it to, when the test tells it to."""

import asyncio
import json
import queue
import threading
from typing import Any

from aiohttp import web

from chenxing.server.pages import Pages
from chenxing.server.stream import json_response

PROPS = {"model_alias": "scripted", "default_generation_settings": {"n_ctx": 64, "params": {"temperature": 0.5}}}


class Scripted:
    """`say` sends a chunk to the one who is waiting; `asked` holds the requests in order; is_gone: the client left.

    key: the only one that may ask, if there is one.
    """

    def __init__(self) -> None:
        self.asked: queue.Queue[dict[str, Any]] = queue.Queue()
        self.is_gone = threading.Event()
        self.key: str | None = None
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._chunks: asyncio.Queue[Any] = asyncio.Queue()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(60)

    async def _run(self) -> None:
        app = web.Application()
        for path, handler in Pages().routes.items():
            app.router.add_get(path, handler)
        app.router.add_get("/props", self._props)
        app.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()

    def say(self, delta: dict[str, Any] | None = None, **members: Any) -> None:
        """A chunk with this delta; or with other members, such as an error."""
        choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": None}]
        self._put(json.dumps({"choices": choices, **members}))

    def end(self) -> None:
        self._put(json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
        self._put("[DONE]")

    def _put(self, data: str) -> None:
        self._loop.call_soon_threadsafe(self._chunks.put_nowait, data)

    async def _props(self, request: web.Request) -> web.Response:
        return self._refusal(request) or json_response(PROPS)

    def _refusal(self, request: web.Request) -> web.Response | None:
        if self.key and request.headers.get("Authorization") != f"Bearer {self.key}":
            return json_response({"error": {"code": 401, "message": "Invalid API Key", "type": "x"}}, 401)
        return None

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        if refusal := self._refusal(request):
            return refusal
        self.asked.put(await request.json())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            while True:
                data = await self._chunks.get()
                await response.write(f"data: {data}\n\n".encode())
                if data == "[DONE]":
                    return response
        except asyncio.CancelledError:
            self.is_gone.set()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive()
