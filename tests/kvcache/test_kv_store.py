"""What is on disk is found again, and is private."""

import os
import sys
import time

import pytest
from kvcache.pattern import PAGE_BYTES
from kvcache.small_cache import ids, open_cache, remember

from chenxing.kernels.layout import PAGE
from chenxing.kvcache import KVCache, clear_store, list_stores, verify_store
from chenxing.kvcache.files import Files


def test_the_next_start_finds_it(tmp_path):
    text = ids(3 * PAGE + 7)
    cache = open_cache(tmp_path)
    assert remember(cache, text) == 0
    cache.close()
    for _ in range(2):
        cache = open_cache(tmp_path)
        assert cache.stats().n_pages_ram == 0
        assert remember(cache, [*text, 0]) == len(text)
        assert cache.stats().n_restored == 4
        cache.close()
        text = [*text, 0]


def test_the_name_is_no_part_of_the_identity(tmp_path):
    text, kept = ids(PAGE), {"ram_bytes": 10 * PAGE_BYTES, "folder": tmp_path, "disk_bytes": 1 << 30}
    cache = KVCache(PAGE_BYTES, fingerprint={"name": "before", "weights": 1}, **kept)
    remember(cache, text)
    cache.close()
    cache = KVCache(PAGE_BYTES, fingerprint={"name": "after", "weights": 1}, **kept)
    assert remember(cache, [*text, 0]) == PAGE
    cache.close()
    assert [info.name for info in list_stores(tmp_path)] == ["before"]


def test_a_bounded_close_leaves_pages_out_but_no_rest(tmp_path):
    class SlowFiles(Files):
        def write(self, fd, data, offset):
            time.sleep(0.05)
            super().write(fd, data, offset)

    text = ids(30 * PAGE)
    cache = open_cache(tmp_path, files=SlowFiles())
    remember(cache, text)
    cache.close(0.3)
    cache = open_cache(tmp_path)
    assert 0 < remember(cache, text) < 29 * PAGE
    assert cache.stats().n_damaged == 0
    cache.close()


def test_other_settings_are_another_store(tmp_path):
    cache = open_cache(tmp_path, "a")
    remember(cache, ids(100))
    cache.close()
    other = open_cache(tmp_path, "b")
    assert other.match(ids(100)) == 0
    other.close()


def test_a_moved_folder_is_not_believed(tmp_path):
    for name in "ab":
        cache = open_cache(tmp_path, name)
        remember(cache, ids(100, ord(name)))
        cache.close()
    a, b = (info.folder for info in sorted(list_stores(tmp_path), key=lambda info: info.fingerprint["name"]))
    for name in ("index", "pages"):
        (b / name).write_bytes((a / name).read_bytes())
    cache = open_cache(tmp_path, "b")
    assert cache.match(ids(100, ord("a"))) == cache.match(ids(100, ord("b"))) == 0
    assert remember(cache, ids(100)) == 0
    cache.close()


def test_evicted_from_memory_is_restored_from_disk(tmp_path):
    cache = open_cache(tmp_path, ram_bytes=8 * PAGE_BYTES)
    for seed in range(6):
        remember(cache, ids(4 * PAGE, seed))
    assert remember(cache, [*ids(4 * PAGE, 0), 1]) == 4 * PAGE
    assert cache.stats().n_evicted_ram > 0 and cache.stats().n_restored == 4
    cache.close()


def test_many_pages_are_restored_by_threads(tmp_path, monkeypatch):
    monkeypatch.setattr("chenxing.kvcache.restore.MIN_BYTES_EACH", PAGE_BYTES)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    cache = open_cache(tmp_path)
    remember(cache, ids(30 * PAGE))
    cache.close()
    cache = open_cache(tmp_path)
    assert remember(cache, [*ids(30 * PAGE), 0]) == 30 * PAGE
    cache.close()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_files_are_private(tmp_path):
    cache = open_cache(tmp_path / "kv")
    remember(cache, ids(100))
    cache.close()
    (info,) = list_stores(tmp_path / "kv")
    assert info.folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in info.folder.iterdir()} == {0o600}


def test_the_catalogue(tmp_path):
    assert list_stores(tmp_path / "nothing") == []
    cache = open_cache(tmp_path)
    remember(cache, ids(100))
    remember(cache, [*ids(100), 0])
    cache.flush()
    cache.flush()  # the first one made the shorter last page superfluous
    (info,) = list_stores(tmp_path)
    assert (info.n_pages, info.n_tokens, info.is_in_use) == (4, 101, True)
    assert (info.n_requests, info.n_reused, info.name) == (1, 100, "a")
    assert clear_store(info.folder) is None
    cache.close()
    with (info.folder / "pages").open("r+b") as file:
        file.write(b"x")
    verified = verify_store(info.folder)
    assert (verified.n_sound, verified.n_damaged) == (3, 1)
    assert clear_store(info.folder) == info.n_bytes > 0
    assert list(tmp_path.iterdir()) == []
    assert clear_store(info.folder) is None and verify_store(info.folder).n_sound == 0
