"""A request's body to a struct: strict types, and messages that name the field."""

import asyncio
import re
from typing import TypeVar

import msgspec
from aiohttp import hdrs, web

from chenxing.server.failures import ApiError, invalid
from chenxing.server.keys import SERVICE

T = TypeVar("T")
_LARGE = 64 * 1024  # bytes that are decoded in another thread, so that streams go on meanwhile
_AT = re.compile(r" - at `\$\.?(.*)`$")
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_TYPES = re.compile(r"Expected `(.*?)`, got `(.*?)`")


async def read_body(request: web.Request, kind: type[T]) -> T:
    """The body as `kind`. Raises ApiError 400 for what is not, 408 if it never ends, 415 if it is compressed."""
    coding = request.headers.get(hdrs.CONTENT_ENCODING, "identity")
    if coding.lower() != "identity":
        raise ApiError(415, "invalid_request_error", f"Content-Encoding: expected none, found {coding!r}")
    seconds = request.app[SERVICE].settings.body_seconds
    try:
        async with asyncio.timeout(seconds):
            data = await request.read()
    except TimeoutError:
        raise ApiError(408, "invalid_request_error", f"the body did not arrive within {seconds:g} seconds") from None
    if len(data) > _LARGE:
        return await asyncio.to_thread(decode, data, kind)
    return decode(data, kind)


def decode(data: bytes, kind: type[T]) -> T:
    """Raises ApiError 400 for what is no JSON, or no `kind`."""
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise invalid(_explained(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid(f"the body is no JSON: {error}") from None
    except RecursionError:
        raise invalid("the body is nested too deeply") from None


def _explained(message: str) -> str:
    at = _AT.search(message)
    where = at[1] if at else ""
    message = _AT.sub("", message)
    if missing := _MISSING.fullmatch(message):
        return f"'{where}.{missing[1]}' is required" if where else f"'{missing[1]}' is required"
    if types := _TYPES.fullmatch(message):
        message = f"expected {types[1].replace(' | ', ' or ')}, found {types[2]}"
    return f"{where}: {message}" if where else message
