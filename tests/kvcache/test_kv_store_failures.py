"""The disk is never in the way: full, read-only, gone (law L5)."""

import errno
import logging
import os
import sys
import time
from pathlib import Path

import pytest
from kvcache.small_cache import ids, open_cache, remember

from chenxing.kvcache import list_stores
from chenxing.kvcache.files import Files


class FullDisk(Files):
    """Writes fail once this many bytes are written."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> None:
        self.room -= len(data)
        if self.room < 0:
            super().write(fd, data[: self.room], offset)
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write(fd, data, offset)


class ReadOnly(Files):
    def open_writable(self, path: Path) -> int:
        raise OSError(errno.EROFS, "Read-only file system")


@pytest.mark.parametrize("room", [0, 100, 300, 1000, 5000])
def test_a_full_disk_costs_a_warning(tmp_path, caplog, room):
    cache = open_cache(tmp_path, files=FullDisk(room))
    for seed in range(5):
        remember(cache, ids(200, seed))
        cache.flush()
    for seed in range(5):
        assert remember(cache, [*ids(200, seed), 0]) == 200
    assert not cache.stats().is_writer
    cache.close()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and "No space left" in record.message
    cache = open_cache(tmp_path)  # there is room again
    remember(cache, ids(200))
    assert cache.stats().n_damaged == 0
    cache.close()
    cache = open_cache(tmp_path)
    assert remember(cache, [*ids(200), 0]) == 200
    cache.close()


def test_a_read_only_folder_is_read(tmp_path, caplog):
    cache = open_cache(tmp_path)
    remember(cache, ids(100))
    cache.close()
    for _ in range(2):
        cache = open_cache(tmp_path, files=ReadOnly())
        assert remember(cache, [*ids(100), 5]) == 100
        assert remember(cache, [*ids(100), 5, 6]) == 101  # from memory
        assert not cache.stats().is_writer
        cache.close()
    assert len(caplog.records) == 2  # one for each cache


def test_a_folder_that_is_a_file(tmp_path, caplog):
    (tmp_path / "kv").write_text("")
    cache = open_cache(tmp_path / "kv")
    remember(cache, ids(100))
    assert remember(cache, [*ids(100), 0]) == 100
    cache.close()
    assert len(caplog.records) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows removes no open file")
def test_a_folder_that_vanishes_is_made_again(tmp_path):
    cache = open_cache(tmp_path)
    remember(cache, ids(100))
    (info,) = list_stores(tmp_path)
    for path in info.folder.iterdir():
        path.unlink()
    info.folder.rmdir()
    assert remember(cache, [*ids(100), 0]) == 100  # in memory
    cache.close()
    cache = open_cache(tmp_path)
    assert remember(cache, [*ids(100), 0, 0]) == 101
    cache.close()


def test_clocks_do_not_matter(tmp_path, monkeypatch):
    cache = open_cache(tmp_path)
    remember(cache, ids(100))
    cache.close()
    for path in tmp_path.rglob("*"):
        os.utime(path, (4e9, 4e9))
    monkeypatch.setattr(time, "time", lambda: 0.0)
    cache = open_cache(tmp_path)
    assert remember(cache, [*ids(100), 0]) == 100
    cache.close()
