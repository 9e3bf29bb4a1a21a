"""A Hugging Face repository (or another hub of the same protocol): what is in it, and where its files are.

Address, token, cache folder and offline mode are huggingface_hub's own (HF_ENDPOINT, HF_TOKEN, HF_HOME,
HF_HUB_OFFLINE); the library is imported when it is first needed.
"""

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chenxing.errors import ChenxingError, DownloadError, ModelNotFoundError
from chenxing.file_names import is_ordinary
from chenxing.hub.choice import RepoFile

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Repository:
    """One commit of a repository. `cached` maps the paths that this user's Hugging Face cache holds to their files."""

    repo: str
    commit: str
    files: tuple[RepoFile, ...]
    cached: dict[str, Path]
    licence: str | None = None

    def url(self, file: RepoFile) -> str:
        from huggingface_hub import constants, hf_hub_url

        return hf_hub_url(self.repo, file.path, revision=self.commit, endpoint=constants.ENDPOINT)


def open_repository(repo: str) -> Repository:
    """The repository's newest commit; what the cache holds of it if the hub is out of reach or offline mode is on.

    Raises ModelNotFoundError if there is no such repository, DownloadError if it may not or cannot be read.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        if cached := cached_repository(repo):
            return cached
        raise DownloadError(
            f"hf:{repo}: HF_HUB_OFFLINE forbids to ask the hub, and the Hugging Face cache {constants.HF_HUB_CACHE} "
            "does not hold it: unset HF_HUB_OFFLINE and pull again"
        )
    try:
        with hub_errors_named(repo):
            return _ask(repo)
    except HubUnreachableError:
        if cached := cached_repository(repo):
            return cached
        raise


class HubUnreachableError(DownloadError):
    """No answer from the hub: no network, wrong address, or a hub that is down."""


def _ask(repo: str) -> Repository:
    from huggingface_hub import HfApi, constants

    api = HfApi(library_name="chenxing")
    try:
        info = api.model_info(repo, files_metadata=True, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise DownloadError(
            f"hf:{repo}: {constants.ENDPOINT} does not answer as a hub does: check HF_ENDPOINT, and whether the "
            "network asks for a login first"
        ) from error
    files = tuple(
        RepoFile(file.rfilename, file.size, file.lfs.sha256 if file.lfs else None)
        for file in info.siblings or ()
        if file.size is not None and _is_inside(file.rfilename)
    )
    licences = [tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")]
    commit = info.sha or constants.DEFAULT_REVISION
    return Repository(repo, commit, files, _cached_files(repo, commit), licences[0] if licences else None)


def cached_repository(repo: str) -> Repository | None:
    """What the cache holds of the repository's last known commit, or None if that is no GGUF file."""
    reference = _cache_folder(repo) / "refs" / "main"
    if not reference.is_file():
        return None
    commit = reference.read_text(encoding="utf-8").strip()
    cached = _cached_files(repo, commit)
    files = tuple(RepoFile(path, file.stat().st_size, _sha256_of_blob(file)) for path, file in cached.items())
    return Repository(repo, commit, files, cached) if files else None


def _cached_files(repo: str, commit: str) -> dict[str, Path]:
    snapshot = _cache_folder(repo) / "snapshots" / commit
    files = sorted(path for path in snapshot.rglob("*.gguf") if path.is_file())
    return {path.relative_to(snapshot).as_posix(): path for path in files}


def _cache_folder(repo: str) -> Path:
    """Source  huggingface_hub's guide "Understand caching": hub/models--OWNER--REPO/{refs,snapshots,blobs}."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"


def _sha256_of_blob(file: Path) -> str | None:
    """The cache names a large file's blob by its SHA-256; where links are not possible there is no blob to ask."""
    name = file.resolve().name
    return name if _SHA256.fullmatch(name) else None


def _is_inside(path: str) -> bool:
    """Whether a file name that a server sent stays in the folder that it is to be put in, on any system."""
    return all(map(is_ordinary, path.split("/")))


@contextlib.contextmanager
def hub_errors_named(repo: str) -> Iterator[None]:
    """Turns the library's errors into ours: what failed, and what the user can do about it."""
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        HTTPError,
        OfflineModeIsEnabled,
    )

    page = f"{constants.ENDPOINT}/{repo}"
    try:
        yield
    except ChenxingError:
        raise
    except GatedRepoError as error:
        raise DownloadError(
            f"hf:{repo}: the repository is gated: accept its terms at {page} and set HF_TOKEN to a token of that "
            "account"
        ) from error
    except HFValidationError as error:
        raise ModelNotFoundError(f"hf:{repo}: not a possible repository name: {error}") from error
    except OfflineModeIsEnabled as error:
        raise DownloadError(
            f"hf:{repo}: not complete on this machine, and HF_HUB_OFFLINE forbids to fetch it"
        ) from error
    except HfHubHTTPError as error:
        raise _status_error(repo, page, error.response.status_code, str(error)) from error
    except (HTTPError, ConnectionError, TimeoutError) as error:
        raise HubUnreachableError(
            f"hf:{repo}: no connection to {constants.ENDPOINT} ({error or type(error).__name__}): check the network "
            "and HF_ENDPOINT; what has been downloaded is kept, pull again to go on"
        ) from error


def _status_error(repo: str, page: str, status: int, text: str) -> ChenxingError:
    """A hub says 401 for a repository that is not there to someone without a token, and 404 to one with a token."""
    from huggingface_hub import get_token

    if status == 404 or (status == 401 and not get_token()):
        return ModelNotFoundError(
            f"hf:{repo}: no such repository at {page} (HTTP {status}), or a private one: check the spelling; for a "
            "private one set HF_TOKEN to a token that may read it"
        )
    if status in (401, 403):
        return DownloadError(
            f"hf:{repo}: the hub refuses access (HTTP {status}): check that HF_TOKEN is a valid token and that its "
            f"account may read {page}"
        )
    reason = " ".join(text.split())[:300]
    if status == 429 or status >= 500:
        return HubUnreachableError(f"hf:{repo}: the hub cannot answer now (HTTP {status}): {reason}. Try again later")
    return DownloadError(f"hf:{repo}: the hub refused the request (HTTP {status}): {reason}")
