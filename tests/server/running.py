"""A server over a toy model in a thread of this process, and a plain client for it."""

import asyncio
import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reference.toys import TOYS

from chenxing.server.connections import listen, make_runner
from chenxing.server.service import Service
from chenxing.server.settings import ServeSettings

TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% if enable_thinking is defined %}<think>{% endif %}{% endif %}"
)
N_CTX = 512


def toy_settings(folder: Path, **changes: Any) -> ServeSettings:
    path = TOYS["llama"].write(folder)
    options = {"n_ctx": N_CTX, "n_threads": 1, "chat_template": TEMPLATE, "weight_cache": False, "disk_cache": False}
    defaults: dict[str, Any] = {
        "model": str(path),
        "model_options": options,
        "aliases": ("toy",),
        "sampling": {"temp": 0.0},
        "has_metrics": True,
        "n_slots": 4,
        "shutdown_seconds": 1.0,
        "body_bytes": 1024 * 1024,
    }
    return ServeSettings(**(defaults | changes))


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def events(self) -> list[Any]:
        """The JSON of a stream's events; [DONE] as it is."""
        lines = [line.removeprefix("data: ") for line in self.data.decode().split("\n\n") if line.startswith("data: ")]
        return [line if line == "[DONE]" else json.loads(line) for line in lines]

    @property
    def error(self) -> dict[str, Any]:
        return self.json["error"]


class Running:
    """Serves from its making until `close`. `service` is its own thread's; tests read it when nothing runs."""

    def __init__(self, settings: ServeSettings, *, load: bool = True, port: int = 0) -> None:
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._settings, self._load, self._port, self._stop = settings, load, port, asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)
        self._thread.start()
        assert self._ready.wait(300)

    async def _run(self) -> None:
        self.service = Service(self._settings)
        runner = make_runner(self.service)
        await runner.setup()
        listener = await listen(runner, socket.create_server(("127.0.0.1", self._port)))
        self.port = listener.sockets[0].getsockname()[1]
        if self._load:
            self.service.open(self.service.load())
        self._ready.set()
        await self._stop.wait()
        listener.close()
        await self.service.close()
        await runner.cleanup()

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        """body: JSON data, or bytes as they are."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection = self.connection()
        try:
            connection.request(method, path, data, headers or {})
            response = connection.getresponse()
            return Reply(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def get(self, path: str, **options: Any) -> Reply:
        return self.ask("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> Reply:
        return self.ask("POST", path, body, **options)

    def chat(self, text: str = "the star", **fields: Any) -> Reply:
        messages = [{"role": "user", "content": text}]
        return self.post("/v1/chat/completions", {"messages": messages, "max_tokens": 6} | fields)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive()


def begun(server: Running, body: dict) -> socket.socket:
    """A connection that has sent its request."""
    data = json.dumps(body).encode()
    head = f"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n"
    s = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    s.sendall(head.encode() + data)
    return s


def until(true: Callable[[], bool], seconds: float = 20) -> bool:
    """Waits for it. -> whether it came true in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def running(settings: ServeSettings) -> Iterator[Running]:
    """For fixtures."""
    server = Running(settings)
    yield server
    server.close()
