"""What handlers find in their application, and in their request."""

from aiohttp import web

from chenxing.server.service import Service

SERVICE: web.AppKey[Service] = web.AppKey("service", Service)
HEADERS: web.RequestKey[dict[str, str]] = web.RequestKey("headers", dict[str, str])
"""Of the response, whatever it will be."""
