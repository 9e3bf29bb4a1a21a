"""One file from a hub over HTTP: resumed where it broke off, within a run and between runs, and checked.

huggingface_hub gives the session (proxies, certificates, offline mode), the headers (token) and the errors; its own
download starts again from nothing in every new process, which for a model of many gigabytes is no resuming.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from chenxing.errors import DownloadError
from chenxing.hub.disk import hash_file

_TRIES_WITHOUT_PROGRESS = 5
_PASSING = {408, 429, 500, 502, 503, 504}
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Download:
    """What is to be fetched: the size is binding; sha256 is None where the hub does not give one."""

    url: str
    size: int
    sha256: str | None


class _PartFile:
    """The growing file. Invariant: `sha256` is that of exactly the `size` bytes written so far."""

    def __init__(self, path: Path, on_done: Callable[[int], object]) -> None:
        self._on_done = on_done
        self.size = 0
        self.sha256 = hashlib.sha256()
        self._file = path.open("ab")
        hash_file(path, self._count, self.sha256)

    def append(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self.sha256.update(chunk)
        self._count(len(chunk))

    def restart(self) -> None:
        self._file.truncate(0)
        self.size = 0
        self.sha256 = hashlib.sha256()
        self._on_done(0)

    def _count(self, n_bytes: int) -> None:
        self.size += n_bytes
        self._on_done(self.size)

    def __enter__(self) -> "_PartFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def fetch(download: Download, part: Path, on_done: Callable[[int], object], wait_s: float = 1.0) -> str:
    """Completes `part`, which may hold the beginning already, and returns the SHA-256 of all its bytes.

    on_done(n) follows the bytes that are there. A connection that breaks is taken up again after wait_s, 2 wait_s, …
    until five tries in a row bring nothing; the bytes stay for the next run. Raises DownloadError if the content is
    not what the hub announced (then `part` is removed), and lets the library's errors through.
    """
    if part.is_file() and part.stat().st_size > download.size:
        part.unlink()
    with _PartFile(part, on_done) as file:
        tries = 0
        while file.size < download.size:
            before = file.size
            error = _receive(download, file)
            tries = tries + 1 if file.size <= before else 0
            if error and tries >= _TRIES_WITHOUT_PROGRESS:
                raise error
            if tries >= _TRIES_WITHOUT_PROGRESS:
                raise DownloadError(
                    f"{download.url}: the server sends no more than {file.size} of {download.size} bytes"
                )
            if file.size < download.size:
                time.sleep(wait_s * 2**tries)
    size, digest = file.size, file.sha256.hexdigest()
    if size != download.size or download.sha256 not in (None, digest):
        part.unlink()
        raise DownloadError(
            f"{download.url}: expected {download.size} bytes with SHA-256 {download.sha256}, found {size} bytes with "
            f"{digest}. The download was not kept: pull again"
        )
    return digest


def _receive(download: Download, file: _PartFile) -> Exception | None:
    """One request for what is missing, appended to `file`. Returns an error that may pass, raises any other."""
    from huggingface_hub.errors import HfHubHTTPError, HTTPError
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    headers = build_hf_headers(library_name="chenxing") | {"Accept-Encoding": "identity"}
    if file.size:
        headers["Range"] = f"bytes={file.size}-"
    try:
        with get_session().stream("GET", download.url, headers=headers, timeout=_TIMEOUT_S) as response:
            hf_raise_for_status(response)
            if file.size and response.status_code != 206:  # no ranges here: the answer is the whole file
                file.restart()
            for chunk in response.iter_bytes():
                file.append(chunk)
                if file.size > download.size:
                    break
    except HfHubHTTPError as error:
        if error.response.status_code not in _PASSING:
            raise
        return error
    except HTTPError as error:  # of httpx, or of httpx2 since huggingface_hub 2
        return error
    return None
