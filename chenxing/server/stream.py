"""Answers over HTTP: as one JSON object, or as server-sent events while they come.

Source: WHATWG HTML, "Server-sent events"; OpenAI's streaming format.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec
from aiohttp import web

from chenxing.server.answers import Job, Step
from chenxing.server.failures import api_error
from chenxing.server.keys import HEADERS
from chenxing.server.service import Service

KEEP_ALIVE_SECONDS = 5.0  # of silence, while a prompt is computed or waits: proxies and clients give up otherwise
_log = logging.getLogger("chenxing.server")
to_json = msgspec.json.Encoder().encode


class Writer(Protocol):
    """One protocol's JSON for one job."""

    def whole(self) -> Any: ...  # the body, when all is done
    def chunks(self, step: Step) -> Iterable[dict[str, Any]]: ...
    def tail(self) -> Iterable[dict[str, Any]]: ...  # chunks after the last step
    @property
    def says_done(self) -> bool: ...  # whether [DONE] ends the stream


def json_response(body: Any, status: int = 200) -> web.Response:
    """A body of JSON."""
    return web.Response(body=to_json(body), status=status, content_type="application/json", charset="utf-8")


async def respond(
    request: web.Request, service: Service, job: Job, writer: Writer, *, stream: bool
) -> web.StreamResponse:
    """Send a job's answers. If the client goes, aiohttp cancels this and the job ends at once."""
    try:
        if not stream:
            await job.drain()
            return json_response(writer.whole())
        return await _streamed(request, job, writer)
    finally:
        service.finished(job)


async def _streamed(request: web.Request, job: Job, writer: Writer) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    response.headers["X-Accel-Buffering"] = "no"
    response.headers.update(request[HEADERS])
    await response.prepare(request)
    stream = _Stream(request, response, writer)
    try:
        async for step in job.steps(stream.take):
            await stream.write(step)
        end = b"".join(_event(chunk) for chunk in writer.tail())
        await response.write(end + (b"data: [DONE]\n\n" if writer.says_done else b""))
    except (ConnectionError, OSError):
        raise  # nobody is there to be told
    except Exception as error:  # the status is sent: the stream itself has to tell
        failure = api_error(error)
        if failure.status == 500:
            _log.error("a stream failed", exc_info=error)
        await response.write(_event(failure.body()))
    finally:
        stream.close()
    await response.write_eof()
    return response


class _Stream:
    """Writes steps, and a sign of life whenever nothing was written for KEEP_ALIVE_SECONDS."""

    def __init__(self, request: web.Request, response: web.StreamResponse, writer: Writer) -> None:
        self._protocol, self._response, self._writer = request.protocol, response, writer
        self._loop = asyncio.get_running_loop()
        self._written = self._loop.time()
        self._timer = self._loop.call_later(KEEP_ALIVE_SECONDS, self._look)

    def close(self) -> None:
        self._timer.cancel()

    def take(self, step: Step) -> bool:
        """Write a step at once; or say that it has to wait until the client has read."""
        if not self._is_free:
            return False
        if data := self._data(step):
            self._write_now(data)
        return True

    async def write(self, step: Step) -> None:
        """Write a step when the client has read. Raises ConnectionError if it has gone."""
        if data := self._data(step):
            await self._response.write(data)
            self._written = self._loop.time()

    def _data(self, step: Step) -> bytes:
        return b"".join(_event(chunk) for chunk in self._writer.chunks(step))

    @property
    def _is_free(self) -> bool:
        """There is somebody, and what was written is on its way."""
        transport = self._protocol.transport
        return transport is not None and not transport.is_closing() and not self._protocol.writing_paused

    def _write_now(self, data: bytes) -> None:
        """To a free connection. If this fills it, aiohttp has the data and would wait: the next step does."""
        writing = self._response.write(data)
        try:
            room = writing.send(None)
        except StopIteration:
            pass
        else:
            writing.close()
            room.add_done_callback(_forget)
        self._written = self._loop.time()

    def _look(self) -> None:
        silence = self._loop.time() - self._written
        if silence >= KEEP_ALIVE_SECONDS:
            silence = 0.0
            if self._is_free:  # else it has things to read
                self._write_now(b": keep-alive\n\n")
        self._timer = self._loop.call_later(KEEP_ALIVE_SECONDS - silence, self._look)


def _forget(room: "asyncio.Future[None]") -> None:
    """Nobody waits for it: how it ended, perhaps with the connection, is no news."""
    if not room.cancelled():
        room.exception()


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + to_json(chunk) + b"\n\n"
