"""Who may ask: keys, hosts, origins.

A page in a browser may send requests to this machine. It cannot know the API key; where there is none, its Origin tells
it apart. A page that has its own name resolved to this machine (DNS rebinding) shows in the Host header.
"""

import hmac
import ipaddress
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from chenxing.server.failures import ApiError
from chenxing.server.pages import is_page
from chenxing.server.settings import ServeSettings

PUBLIC = frozenset(("/health", "/v1/health", "/openapi.json"))
"""Paths without a key, beside the pages'."""


def check_host(request: web.Request, settings: ServeSettings) -> None:
    """Raises ApiError 403 for a Host that is neither an address, nor loopback's name, nor one of ours."""
    name = host_name(request.headers.get(hdrs.HOST, ""))
    if not (_is_address(name) or is_loopback(name) or name in settings.allowed_hosts + settings.hosts):
        raise ApiError(403, "permission_error", f"Host: {name!r} is not a name of this server; see --allowed-hosts")


def check_key(request: web.Request, settings: ServeSettings) -> None:
    """Raises ApiError 401. Takes the same time whichever key, and how much of it, was wrong."""
    if not settings.api_keys or request.path in PUBLIC or is_page(request.path):
        return
    scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    given = token.strip() if scheme.lower() == "bearer" else request.headers.get("X-Api-Key", "")
    encoded = given.encode(errors="surrogateescape")
    equal = [hmac.compare_digest(encoded, key.encode(errors="surrogateescape")) for key in settings.api_keys]
    if not any(equal):
        raise ApiError(401, "authentication_error", "Invalid API Key")


def allowed_origin(request: web.Request, settings: ServeSettings) -> str | None:
    """The request's Origin, if its page may ask and read; None if it has none. Raises ApiError 403 for others."""
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is None:
        return None
    if origin.partition("://")[2] == request.headers.get(hdrs.HOST, "").lower():
        return origin  # our own page's, by a name that check_host has found to be ours
    if settings.cors_origins is None:
        allowed = bool(settings.api_keys) or is_loopback(_origin_name(origin))
    else:
        allowed = bool({origin, "*"} & set(settings.cors_origins)) or (
            "localhost" in settings.cors_origins and is_loopback(_origin_name(origin))
        )
    if not allowed:
        raise ApiError(403, "permission_error", f"Origin: pages of {origin!r} may not ask here; see --cors-origins")
    return origin


def cors_headers(origin: str) -> dict[str, str]:
    """What lets a page of this origin read the answer."""
    return {
        hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: origin,
        hdrs.ACCESS_CONTROL_ALLOW_CREDENTIALS: "true",
        hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, POST, DELETE, OPTIONS",
        hdrs.ACCESS_CONTROL_ALLOW_HEADERS: "*",
        hdrs.VARY: "Origin",
    }


def host_name(header: str) -> str:
    """Without the port: `[::1]:8080` -> `::1`."""
    try:
        return (urlsplit(f"//{header}").hostname or "").rstrip(".")
    except ValueError:
        return header


def is_loopback(name: str) -> bool:
    """localhost and its names, 127.0.0.0/8, ::1."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return _is_address(name) and ipaddress.ip_address(name).is_loopback


def _origin_name(origin: str) -> str:
    try:
        return (urlsplit(origin).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
