import errno
import hashlib
import shutil
import sys

import pytest

from chenxing.errors import DownloadError
from chenxing.hub.disk import disk_errors_named, free_bytes, hash_file, human_bytes, require_space


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (98_362_432, "98.4 MB"),
        (999_400, "999 kB"),
        (999_600, "1 MB"),
        (4_920_734_272, "4.92 GB"),
        (1_500_000_000_000, "1.5 TB"),
    ],
)
def test_human_bytes(n_bytes, text):
    assert human_bytes(n_bytes) == text


def test_free_bytes_of_a_folder_that_is_not_there_yet(tmp_path):
    # other processes write meanwhile, so not to the byte
    assert free_bytes(tmp_path / "a" / "b") == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.1)


def test_require_space_names_needed_and_free(tmp_path):
    require_space(tmp_path, 1, "model x")
    with pytest.raises(
        DownloadError, match=r"model x: the disk of .* is too full: 1e\+03 TB|model x: .*1000 TB needed"
    ):
        require_space(tmp_path, 10**15, "model x")


def test_errors_of_the_disk_are_named(tmp_path):
    for code in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
        with pytest.raises(DownloadError, match=r"too full: 5 MB needed"), disk_errors_named(tmp_path, 5_000_000, "x"):
            raise OSError(code, "full")
    with (
        pytest.raises(DownloadError, match=r"x: cannot write /f: no.*CHENXING_HOME"),
        disk_errors_named(tmp_path, 5, "x"),
    ):
        raise PermissionError(errno.EACCES, "no", "/f")
    with pytest.raises(DownloadError, match=r"x: cannot write in .*: I/O error"), disk_errors_named(tmp_path, 5, "x"):
        raise OSError(errno.EIO, "I/O error")
    with pytest.raises(ZeroDivisionError), disk_errors_named(tmp_path, 5, "x"):
        raise ZeroDivisionError


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/dev/full is a device of Linux")
def test_a_device_that_is_really_full(tmp_path):
    with pytest.raises(DownloadError, match="too full"), disk_errors_named(tmp_path, 5, "x"):
        with open("/dev/full", "wb") as file:
            file.write(b"x")


def test_hash_file(tmp_path):
    content = bytes(range(256)) * 10_000  # more than two chunks
    (tmp_path / "f").write_bytes(content)
    counts = []
    assert hash_file(tmp_path / "f", counts.append).digest() == hashlib.sha256(content).digest()
    assert sum(counts) == len(content)
    started = hashlib.sha256(b"before")
    assert hash_file(tmp_path / "f", counts.append, started).digest() == hashlib.sha256(b"before" + content).digest()
