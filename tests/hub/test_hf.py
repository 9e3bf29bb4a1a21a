import pytest
from huggingface_hub import constants, hf_hub_download
from standin_hub import COMMIT, StandInRepo

from chenxing.errors import DownloadError, ModelNotFoundError
from chenxing.hub.choice import RepoFile
from chenxing.hub.hf import HubUnreachableError, cached_repository, open_repository


def test_listing(hub):
    repo = hub.repos["owner/repo"] = StandInRepo({"README.md": b"hello", "sub/a-Q4_0.gguf": b"GGUF1"})
    found = open_repository("owner/repo")
    assert (found.commit, found.licence, found.cached) == (COMMIT, "mit", {})
    assert found.files == tuple(RepoFile(path, 5, repo.sha256(path)) for path in repo.files)
    assert found.url(found.files[1]) == f"{hub.url}/owner/repo/resolve/{COMMIT}/sub/a-Q4_0.gguf"


def test_file_names_that_would_leave_the_folder_are_not_taken(hub):
    hub.repos["owner/repo"] = StandInRepo(
        {"../a.gguf": b"", "/b.gguf": b"", "x\\..\\c.gguf": b"", "C:d.gguf": b"", "nul/d.gguf": b"", "e/f.gguf": b""}
    )
    assert [file.path for file in open_repository("owner/repo").files] == ["e/f.gguf"]


def test_no_such_repository(hub, monkeypatch):
    with pytest.raises(ModelNotFoundError, match=r"hf:owner/none: no such repository.*HF_TOKEN"):
        open_repository("owner/none")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")  # with a token the hub says 404 instead of 401
    with pytest.raises(ModelNotFoundError, match="no such repository"):
        open_repository("owner/none")
    with pytest.raises(ModelNotFoundError, match="not a possible repository name"):
        open_repository("owner/no..ne")


def test_the_token_is_sent(hub, monkeypatch):
    hub.repos["owner/private"] = StandInRepo({"a.gguf": b"GGUF"}, token="hf_secret")
    with pytest.raises(ModelNotFoundError, match="HF_TOKEN"):
        open_repository("owner/private")
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    assert open_repository("owner/private").files
    assert hub.requests[-1].authorization == "Bearer hf_secret"


@pytest.mark.parametrize("status", [401, 403])
def test_access_refused_names_the_token(hub, status, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    hub.repos["owner/repo"] = StandInRepo({})
    hub.api_status = status
    with pytest.raises((DownloadError, ModelNotFoundError), match="HF_TOKEN"):
        open_repository("owner/repo")


def test_a_hub_that_is_down_or_away(hub, monkeypatch):
    hub.api_status = 503
    with pytest.raises(HubUnreachableError, match=r"HTTP 503.*later"):
        open_repository("owner/repo")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # the discard port: nobody listens
    with pytest.raises(HubUnreachableError, match=r"no connection to http://127\.0\.0\.1:9.*HF_ENDPOINT"):
        open_repository("owner/repo")


def test_what_is_no_hub(hub, monkeypatch):
    hub.repos["x/y"] = StandInRepo({"api/models/owner/repo": b"<html>log in</html>"})
    monkeypatch.setattr(constants, "ENDPOINT", f"{hub.url}/cdn/x/y")
    with pytest.raises(DownloadError, match="does not answer as a hub does"):
        open_repository("owner/repo")


def test_the_library_s_cache_is_read(hub, monkeypatch):
    repo = hub.repos["owner/repo"] = StandInRepo({"sub/a-Q4_0.gguf": b"GGUF1", "b-Q8_0.gguf": b"GGUF22"})
    assert cached_repository("owner/repo") is None
    path = hf_hub_download("owner/repo", "sub/a-Q4_0.gguf")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    before = len(hub.requests)
    found = open_repository("owner/repo")
    assert found.commit == COMMIT
    assert {name: str(file) for name, file in found.cached.items()} == {"sub/a-Q4_0.gguf": path}
    # without links (Windows) the cache keeps no checksum
    assert found.files in ((RepoFile("sub/a-Q4_0.gguf", 5, s),) for s in (repo.sha256("sub/a-Q4_0.gguf"), None))
    assert len(hub.requests) == before
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    hub.api_status = 503  # out of reach: the cache answers too
    assert open_repository("owner/repo") == found


def test_offline_and_not_cached(hub, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE"):
        open_repository("owner/repo")
    assert not hub.requests
