"""Answers over HTTP: as one JSON object, or as server-sent events while they come.

Source: WHATWG HTML, "Server-sent events"; OpenAI's streaming format.
"""

import logging
import time
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
_encode = msgspec.json.Encoder().encode


class Writer(Protocol):
    """One protocol's JSON for one job."""

    def whole(self) -> Any: ...  # the body, when all is done
    def chunks(self, step: Step) -> Iterable[dict[str, Any]]: ...
    def tail(self) -> Iterable[dict[str, Any]]: ...  # chunks after the last step
    @property
    def says_done(self) -> bool: ...  # whether [DONE] ends the stream


def json_response(body: Any, status: int = 200) -> web.Response:
    """A body of JSON."""
    return web.Response(body=_encode(body), status=status, content_type="application/json", charset="utf-8")


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
    written = time.monotonic()
    try:
        async for step in job.steps(KEEP_ALIVE_SECONDS):
            data = b"".join(_event(chunk) for chunk in writer.chunks(step)) if step else b""
            if not data and time.monotonic() - written >= KEEP_ALIVE_SECONDS:
                data = b": keep-alive\n\n"
            if data:
                await response.write(data)
                written = time.monotonic()
        end = b"".join(_event(chunk) for chunk in writer.tail())
        await response.write(end + (b"data: [DONE]\n\n" if writer.says_done else b""))
    except (ConnectionError, OSError):
        raise  # nobody is there to be told
    except Exception as error:  # the status is sent: the stream itself has to tell
        failure = api_error(error)
        if failure.status == 500:
            _log.error("a stream failed", exc_info=error)
        await response.write(_event(failure.body()))
    await response.write_eof()
    return response


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + _encode(chunk) + b"\n\n"
