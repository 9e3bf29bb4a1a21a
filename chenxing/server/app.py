"""The application: which path leads where, and what happens to every request on its way."""

import logging
import secrets
import time
from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from chenxing.errors import ChenxingError
from chenxing.server import chat, completions, info, native, security, slot_actions, texts
from chenxing.server.failures import ApiError, api_error, invalid, not_found
from chenxing.server.keys import HEADERS, SERVICE
from chenxing.server.metrics import metrics
from chenxing.server.openapi.handler import openapi
from chenxing.server.pages import Pages
from chenxing.server.service import Service
from chenxing.server.settings import ServeSettings
from chenxing.server.stream import json_response

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
REQUEST_ID = "X-Request-Id"
_log = logging.getLogger("chenxing.server")

GET: dict[str, Handler] = {
    "/health": info.health,
    "/v1/health": info.health,
    "/props": info.props,
    "/models": info.models,
    "/v1/models": info.models,
    "/v1/models/{name:.+}": info.model,
    "/slots": info.slots,
    "/metrics": metrics,
    "/openapi.json": openapi,
}
POST: dict[str, Handler] = {
    "/chat/completions": chat.chat_completions,
    "/v1/chat/completions": chat.chat_completions,
    "/chat/completions/input_tokens": chat.count_tokens,
    "/v1/chat/completions/input_tokens": chat.count_tokens,
    "/v1/completions": completions.completions,
    "/completion": native.completion,
    "/completions": native.completion,  # llama-server's own protocol, without /v1
    "/infill": native.infill,
    "/tokenize": texts.tokenize,
    "/detokenize": texts.detokenize,
    "/apply-template": texts.apply_template,
    "/props": info.set_props,
    "/slots/{number}": slot_actions.slot_action,
}


def make_app(service: Service) -> web.Application:
    """An application over a service, which may be loading."""
    app = web.Application(client_max_size=service.settings.body_bytes, middlewares=[_around(service.settings)])
    app[SERVICE] = service
    pages = Pages().routes if service.settings.has_ui else {}
    for path, handler in (GET | pages).items():
        app.router.add_get(path, handler, expect_handler=_expect)
    for path, handler in POST.items():
        app.router.add_post(path, handler, expect_handler=_expect)
    return app


async def _expect(request: web.Request) -> None:
    """Tell a client that waits with its body to send it. Nothing else that it may expect is anything we do."""
    if request.headers[hdrs.EXPECT].lower() == "100-continue" and request.version >= (1, 1):
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # this was no part of the answer


def _around(settings: ServeSettings) -> Middleware:
    @web.middleware
    async def around(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = time.perf_counter()
        request_id = _request_id(request)
        headers: dict[str, str] = {REQUEST_ID: request_id}
        request[HEADERS] = headers
        response = await _checked(request, handler, settings, headers)
        ms = round(1000 * (time.perf_counter() - started))
        known = {"method": request.method, "path": request.path, "status": response.status, "ms": ms, "id": request_id}
        _log.info("%s %s %d %d ms %s", *known.values(), extra={"request": known})
        return response

    return around


async def _checked(
    request: web.Request, handler: Handler, settings: ServeSettings, headers: dict[str, str]
) -> web.StreamResponse:
    """The handler's response, or an error in our shape. `headers` are for any of them."""
    response: web.StreamResponse
    try:
        security.check_host(request, settings)
        if origin := security.allowed_origin(request, settings):
            headers.update(security.cors_headers(origin))
        if request.method == "OPTIONS":
            response = web.Response()
        else:
            security.check_key(request, settings)
            response = await _handled(request, handler)
    except Exception as error:
        failure = _failure(request, error)
        response = json_response(failure.body(), failure.status)
    if not response.prepared:
        response.headers.update(headers)
    return response


async def _handled(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Whatever a client posts wakes the model; what it gets does not."""
    if request.method != "POST":
        return await handler(request)
    async with request.app[SERVICE].awake():
        return await handler(request)


def _failure(request: web.Request, error: Exception) -> ApiError:
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        limit = request.app[SERVICE].settings.body_bytes
        return ApiError(413, "invalid_request_error", f"the body is larger than {limit} bytes")
    if isinstance(error, web.HTTPNotFound | web.HTTPMethodNotAllowed):
        return not_found()
    if isinstance(error, web.RequestPayloadError):
        return invalid("the body broke off, or is not as its headers say")
    if isinstance(error, web.HTTPException):
        return ApiError(error.status, "invalid_request_error", error.reason)
    if not isinstance(error, ApiError | ChenxingError | ConnectionError):
        _log.error("%s %s failed", request.method, request.path, exc_info=error)
    return api_error(error)


def _request_id(request: web.Request) -> str:
    """The client's, where it is a plain word; else a new one."""
    given = request.headers.get(REQUEST_ID, "")
    return given if 0 < len(given) <= 64 and given.isascii() and given.isprintable() else secrets.token_hex(8)
