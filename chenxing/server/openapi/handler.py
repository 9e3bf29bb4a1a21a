"""GET /openapi.json."""

from functools import cache

import msgspec
from aiohttp import web

from chenxing.server.keys import SERVICE
from chenxing.server.openapi.document import document


async def openapi(request: web.Request) -> web.Response:
    """The document of this server, whether or not its model is there yet."""
    settings = request.app[SERVICE].settings
    body = _encoded(has_key=bool(settings.api_keys), has_ui=settings.has_ui)
    return web.Response(body=body, content_type="application/json", charset="utf-8")


@cache
def _encoded(*, has_key: bool, has_ui: bool) -> bytes:
    return msgspec.json.encode(document(has_key=has_key, has_ui=has_ui))
