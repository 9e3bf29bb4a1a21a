"""Writing a stream: at once to a free connection, later to one whose client does not read, and signs of life."""

import asyncio
import http.client
import json
from types import SimpleNamespace
from typing import Any

import pytest
from running import Running, begun

from chenxing.server import stream
from chenxing.server.answers import Step


class Response:
    """Keeps what is written; waits for `room` where aiohttp's would."""

    def __init__(self, protocol: Any) -> None:
        self.written: list[bytes] = []
        self._protocol = protocol
        self.room = asyncio.Event()

    async def write(self, data: bytes) -> None:
        self.written.append(data)
        if self._protocol.writing_paused:
            await self.room.wait()


WRITER = SimpleNamespace(chunks=lambda step: [{"text": step.text}] if step.text else [])


def made() -> tuple[stream._Stream, Any, Response]:
    transport = SimpleNamespace(is_closing=lambda: False)
    protocol = SimpleNamespace(transport=transport, writing_paused=False)
    response = Response(protocol)
    return stream._Stream(SimpleNamespace(protocol=protocol), response, WRITER), protocol, response


def step(text: str) -> Step:
    return Step(0, text, (1,), (), 1, SimpleNamespace(), None, None)


def test_a_step_is_written_at_once_or_refused():
    async def run() -> None:
        s, protocol, response = made()
        assert s.take(step("a")) and s.take(step(""))
        protocol.writing_paused = True
        assert not s.take(step("b"))
        protocol.writing_paused = False
        protocol.transport.is_closing = lambda: True
        assert not s.take(step("c"))
        protocol.transport = None
        assert not s.take(step("c"))
        assert response.written == [b'data: {"text":"a"}\n\n']
        s.close()

    asyncio.run(run())


def test_a_step_that_fills_the_connection_is_written_and_the_next_one_waits():
    """aiohttp's write waits then, of which the loop's callback cannot know before."""

    async def run() -> None:
        s, protocol, response = made()
        room = asyncio.get_running_loop().create_future()

        async def fill(data: bytes) -> None:
            response.written.append(data)
            protocol.writing_paused = True
            await room

        write, response.write = response.write, fill
        assert s.take(step("a")) and not s.take(step("b"))
        assert response.written == [b'data: {"text":"a"}\n\n']
        room.set_exception(ConnectionError())  # seen by nobody, and told to nobody
        protocol.writing_paused, response.write = False, write
        assert s.take(step("c"))
        s.close()

    asyncio.run(run())


def test_a_client_that_does_not_read_is_waited_for_and_gets_no_signs_of_life(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stream, "KEEP_ALIVE_SECONDS", 0.01)

    async def run() -> None:
        s, protocol, response = made()
        protocol.writing_paused = True
        waiting = asyncio.create_task(s.write(step("a")))
        await asyncio.sleep(0.1)
        assert not waiting.done() and response.written == [b'data: {"text":"a"}\n\n']
        protocol.writing_paused = False
        response.room.set()
        await waiting
        while len(response.written) < 3:
            await asyncio.sleep(0.01)
        s.close()
        assert set(response.written[1:]) == {b": keep-alive\n\n"}

    asyncio.run(asyncio.wait_for(run(), 60))


def test_a_client_that_reads_late_gets_everything(server: Running, monkeypatch: pytest.MonkeyPatch):
    refused = []
    write = stream._Stream.write
    monkeypatch.setattr(stream._Stream, "write", lambda self, step: refused.append(step) or write(self, step))
    wish = {"prompt": "the star", "n_predict": 300, "ignore_eos": True, "n_probs": 200}
    s = begun(server, wish | {"stream": True})  # megabytes: more than fits between it and the server
    whole = server.post("/completion", wish | {"n_probs": 0}).json  # when this is there, so is the other
    response = http.client.HTTPResponse(s)
    response.begin()
    data = response.read()
    s.close()
    events = [json.loads(line[6:]) for line in data.split(b"\n\n") if line]
    assert len(events) == 301 and "".join(event["content"] for event in events) == whole["content"]
    assert len(refused) > 1  # the last step, and others
