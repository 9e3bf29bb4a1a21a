"""A server of the Hugging Face hub's protocol on 127.0.0.1, with faults to order.

Source  the requests and answers that huggingface_hub (hf_api.py, file_download.py, utils/_http.py) and its guides name.
"""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class StandInRepo:
    """`announced` replaces what the hub says a file's content is; gated: nobody may read files.

    Without checksums its files are in git itself, not in LFS.
    """

    files: dict[str, bytes]
    tags: list[str] = field(default_factory=lambda: ["gguf", "license:mit"])
    commit: str = COMMIT
    is_gated: bool = False
    token: str | None = None
    has_checksums: bool = True
    announced: dict[str, bytes] = field(default_factory=dict)

    def sha256(self, path: str) -> str:
        return hashlib.sha256(self.announced.get(path, self.files[path])).hexdigest()


@dataclass
class Request:
    method: str
    path: str
    range: str | None
    authorization: str | None


class StandInHub:
    """repos by "owner/name". `cuts`: after how many bytes each of the next content answers breaks off."""

    def __init__(self) -> None:
        self.repos: dict[str, StandInRepo] = {}
        self.requests: list[Request] = []
        self.cuts: list[int] = []
        self.has_ranges = True
        self.api_status: int | None = None
        self.url = self.cdn_url = ""  # another host name for contents, as the real hub has

    def contents_sent(self) -> list[Request]:
        return [request for request in self.requests if request.method == "GET" and request.path.startswith("/cdn/")]


@contextmanager
def serving() -> Iterator[StandInHub]:
    hub = StandInHub()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.url, hub.cdn_url = (f"http://{host}:{server.server_port}" for host in ("127.0.0.1", "localhost"))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    hub: StandInHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        authorization = self.headers.get("Authorization")
        self.hub.requests.append(Request(self.command, path, self.headers.get("Range"), authorization))
        if api := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/[^/]+)?", path):
            self._api(api[1], authorization)
        elif content := re.fullmatch(r"/cdn/([^/]+/[^/]+)/(.+)", path):
            self._content(self.hub.repos[content[1]].files[content[2]])
        elif file := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            self._resolve(file[1], file[2], authorization)
        else:
            self._status(404)

    def _repo(self, name: str, authorization: str | None) -> StandInRepo | None:
        """The repository, or None after the answer that it is not there (for this token)."""
        repo = self.hub.repos.get(name)
        if repo and repo.token in (None, (authorization or "").removeprefix("Bearer ")):
            return repo
        if authorization:
            self._status(404, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        else:
            self._status(401, {"X-Error-Message": "Invalid username or password."})
        return None

    def _api(self, name: str, authorization: str | None) -> None:
        if self.hub.api_status:
            self._status(self.hub.api_status)
            return
        if (repo := self._repo(name, authorization)) is None:
            return
        siblings = []
        for path, content in repo.files.items():
            size = len(repo.announced.get(path, content))
            siblings.append({"rfilename": path, "size": size, "blobId": hashlib.sha1(content).hexdigest()})
            if repo.has_checksums:
                siblings[-1]["lfs"] = {"sha256": repo.sha256(path), "size": size, "pointerSize": 134}
        body = {"id": name, "sha": repo.commit, "tags": repo.tags, "siblings": siblings, "private": False}
        self._status(200, {"Content-Type": "application/json"}, json.dumps(body).encode())

    def _resolve(self, name: str, path: str, authorization: str | None) -> None:
        if (repo := self._repo(name, authorization)) is None:
            return
        if repo.is_gated:
            self._status(403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to this model is restricted."})
            return
        if path not in repo.files:
            self._status(404, {"X-Error-Code": "EntryNotFound"})
            return
        headers = {
            "Location": f"{self.hub.cdn_url}/cdn/{name}/{path}",
            "ETag": '"a-pointer"',
            "X-Repo-Commit": repo.commit,
            "X-Linked-Etag": f'"{repo.sha256(path)}"',
            "X-Linked-Size": str(len(repo.files[path])),
        }
        self._status(302, headers)

    def _content(self, content: bytes) -> None:
        start = 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"'}
        if asked and self.hub.has_ranges:
            start = int(asked[1])
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        body = content[start:]
        cut = self.hub.cuts.pop(0) if self.command == "GET" and self.hub.cuts else None
        self.send_response(206 if start else 200)
        for key, value in (headers | {"Content-Length": str(len(body))}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True

    def _status(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for key, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
