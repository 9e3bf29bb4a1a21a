import errno
import hashlib

import pytest
from huggingface_hub.errors import HfHubHTTPError, HTTPError
from standin_hub import StandInRepo

from chenxing.errors import DownloadError
from chenxing.hub import transfer
from chenxing.hub.transfer import Download, fetch

CONTENT = bytes(range(256)) * 12_000  # 3 MB: many network reads


@pytest.fixture
def download(hub):
    hub.repos["o/r"] = StandInRepo({"a.gguf": CONTENT})
    return Download(f"{hub.url}/cdn/o/r/a.gguf", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


def test_whole_file(download, tmp_path):
    seen = []
    assert fetch(download, tmp_path / "part", seen.append) == download.sha256
    assert (tmp_path / "part").read_bytes() == CONTENT
    assert seen == sorted(seen)
    assert seen[-1] == len(CONTENT)
    assert len(seen) > 3


def test_broken_connections_are_taken_up_where_they_broke(hub, download, tmp_path):
    hub.cuts = [1_000_000, 0, 500_000]
    assert fetch(download, tmp_path / "part", lambda _: None, wait_s=0) == download.sha256
    assert (tmp_path / "part").read_bytes() == CONTENT
    ranges = [request.range for request in hub.contents_sent()]
    assert ranges[0] is None
    assert ranges[1:3] == [ranges[1]] * 2  # the second answer brought nothing
    starts = [int(text.removeprefix("bytes=").removesuffix("-")) for text in ranges[1:]]
    assert 0 < starts[0] <= 1_000_000
    assert starts[0] < starts[2] <= 1_500_000


def test_bytes_of_an_earlier_run_are_used_and_checked(hub, download, tmp_path):
    (tmp_path / "part").write_bytes(CONTENT[:2_000_000])
    assert fetch(download, tmp_path / "part", lambda _: None) == download.sha256
    assert [request.range for request in hub.contents_sent()] == ["bytes=2000000-"]


def test_complete_bytes_of_an_earlier_run_need_no_request(hub, download, tmp_path):
    (tmp_path / "part").write_bytes(CONTENT)
    assert fetch(download, tmp_path / "part", lambda _: None) == download.sha256
    assert not hub.requests


def test_damaged_bytes_of_an_earlier_run_are_found(download, tmp_path):
    (tmp_path / "part").write_bytes(b"x" * 2_000_000)
    with pytest.raises(DownloadError, match=rf"expected {len(CONTENT)} bytes with SHA-256 {download.sha256}"):
        fetch(download, tmp_path / "part", lambda _: None)
    assert not (tmp_path / "part").exists()
    assert fetch(download, tmp_path / "part", lambda _: None) == download.sha256


def test_a_server_without_ranges_starts_again(hub, download, tmp_path):
    hub.has_ranges = False
    hub.cuts = [1_000_000, 2_000_000]
    (tmp_path / "part").write_bytes(CONTENT[:10])
    assert fetch(download, tmp_path / "part", lambda _: None, wait_s=0) == download.sha256
    assert (tmp_path / "part").read_bytes() == CONTENT


def test_a_longer_part_than_the_file_is_of_something_else(download, tmp_path):
    (tmp_path / "part").write_bytes(CONTENT + b"x")
    assert fetch(download, tmp_path / "part", lambda _: None) == download.sha256


def test_five_tries_in_vain_are_enough_and_the_bytes_stay(hub, download, tmp_path):
    hub.cuts = [1_000_000, 0, 0, 0, 0, 0]
    with pytest.raises(HTTPError):
        fetch(download, tmp_path / "part", lambda _: None, wait_s=0)
    assert len(hub.contents_sent()) == 6
    assert 0 < (tmp_path / "part").stat().st_size <= 1_000_000


def test_a_server_that_sends_too_little_or_too_much(hub, tmp_path):
    hub.repos["o/r"] = StandInRepo({"a.gguf": CONTENT})
    too_little = Download(f"{hub.url}/cdn/o/r/a.gguf", len(CONTENT) + 1, None)
    with pytest.raises((DownloadError, HfHubHTTPError)):
        fetch(too_little, tmp_path / "part", lambda _: None, wait_s=0)
    too_much = Download(f"{hub.url}/cdn/o/r/a.gguf", 1_000_000, None)
    with pytest.raises(DownloadError, match="expected 1000000 bytes"):
        fetch(too_much, tmp_path / "other", lambda _: None, wait_s=0)
    assert not (tmp_path / "other").exists()


def test_an_answer_that_will_not_change_is_not_asked_for_again(hub, tmp_path):
    with pytest.raises(HfHubHTTPError):
        fetch(Download(f"{hub.url}/nothing", 10, None), tmp_path / "part", lambda _: None)
    assert len(hub.requests) == 1


def test_a_full_disk_keeps_what_was_written(download, tmp_path, monkeypatch):
    append = transfer._PartFile.append

    def full_after_1_mb(part, chunk):
        if part.size > 1_000_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(part, chunk)

    monkeypatch.setattr(transfer._PartFile, "append", full_after_1_mb)
    with pytest.raises(OSError, match="No space left"):
        fetch(download, tmp_path / "part", lambda _: None)
    assert CONTENT.startswith((tmp_path / "part").read_bytes())
    assert (tmp_path / "part").stat().st_size > 1_000_000
