"""Pages for people: the chat at /, the description of the API at /docs, and the files that they load from /page/.

The files are part of the package. Nothing of theirs comes from elsewhere, and browsers are told to let nothing else in:
a model's text cannot make a page load or send anything. Source: W3C, Content Security Policy Level 3.
"""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import resources

from aiohttp import hdrs, web

from chenxing.server.failures import not_found

CHAT, DOCS = "chat.html", "docs.html"
_KINDS = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "img", "connect")),
        *(f"{what} 'none'" for what in ("base-uri", "form-action", "frame-ancestors")),
    )
)


@dataclass(frozen=True)
class PageFile:
    """etag changes with the data."""

    data: bytes
    kind: str
    etag: str

    @staticmethod
    def of(name: str, data: bytes) -> "PageFile":
        """Raises KeyError for a name whose ending no page needs."""
        kind = _KINDS[name[name.rindex(".") :]]
        return PageFile(data, kind, hashlib.sha256(data).hexdigest()[:16])

    def response(self, request: web.Request) -> web.Response:
        """304 for a browser that has it; browsers ask each time, since the next version has the same names."""
        headers = {
            hdrs.CACHE_CONTROL: "no-cache",
            "Content-Security-Policy": _POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }
        is_known = any(tag.value in (self.etag, "*") for tag in request.if_none_match or ())
        response = web.Response(status=304) if is_known else web.Response(body=self.data)
        if not is_known:
            response.content_type, response.charset = self.kind, "utf-8"
        response.headers.update(headers)
        response.etag = self.etag
        return response


class Pages:
    """All files of the pages, read once."""

    def __init__(self) -> None:
        folder = resources.files("chenxing.server") / "page"
        self._files = {file.name: PageFile.of(file.name, file.read_bytes()) for file in folder.iterdir()}

    @property
    def routes(self) -> dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]:
        """Of GET."""
        return {"/": self.chat, "/docs": self.docs, "/page/{file}": self.file}

    async def chat(self, request: web.Request) -> web.Response:
        """The chat."""
        return self._files[CHAT].response(request)

    async def docs(self, request: web.Request) -> web.Response:
        """The description of the API."""
        return self._files[DOCS].response(request)

    async def file(self, request: web.Request) -> web.Response:
        """One of those that a page loads."""
        file = self._files.get(request.match_info["file"])
        if file is None:
            raise not_found()
        return file.response(request)


def is_page(path: str) -> bool:
    """A path of the pages': these are served without a key, since a browser has none before a page asks for it."""
    return path in ("/", "/docs") or path.startswith("/page/")
