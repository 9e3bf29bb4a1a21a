"""What handlers find in their application."""

from aiohttp import web

from chenxing.server.service import Service

SERVICE: web.AppKey[Service] = web.AppKey("service", Service)
