"""Connections of clients: what is no HTTP is answered as any other mistake, and is none of the log's business."""

import asyncio
import logging
import socket
from functools import partial
from typing import Any

from aiohttp import web

from chenxing.server.app import make_app
from chenxing.server.failures import ApiError, api_error, invalid
from chenxing.server.service import Service
from chenxing.server.stream import json_response

_BACKLOG = 512
_log = logging.getLogger("chenxing.server")


def make_runner(service: Service) -> web.AppRunner:
    """Runs an application over a service; a handler whose client goes is cancelled."""
    return web.AppRunner(make_app(service), handler_cancellation=True, shutdown_timeout=0.5)


async def listen(runner: web.AppRunner, s: socket.socket) -> asyncio.Server:
    """Accept connections from now on, until the result is closed. The runner is set up."""
    assert runner.server
    loop = asyncio.get_running_loop()
    # a compressed body may be a thousand times larger than it looks: whoever reads it says that we do not
    options: dict[str, Any] = {"access_log": None, "auto_decompress": False}
    connection = partial(_Connection, runner.server, loop=loop, **options)
    return await loop.create_server(connection, sock=s, backlog=_BACKLOG)


class _Connection(web.RequestHandler):
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What the parser could not read, or what no handler has caught. The connection ends with it."""
        failure: ApiError
        if status == 500:
            _log.error("a request failed", exc_info=exc)
            failure = api_error(RuntimeError())
        else:
            reason = (message or "").strip().partition("\n")[0].rstrip(":")
            failure = invalid(f"this is no HTTP request: {reason}")
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun: there is no room for an error")
        response = json_response(failure.body(), failure.status)
        response.force_close()
        return response
