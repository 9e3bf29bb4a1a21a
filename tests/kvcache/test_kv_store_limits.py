"""The store keeps within its limits."""

import errno
import os
import sys
from pathlib import Path

from kvcache.pattern import PAGE_BYTES
from kvcache.small_cache import BIG, N_CTX, ids, open_cache, remember

from chenxing.kernels.layout import PAGE
from chenxing.kvcache import default_disk_bytes, list_stores, verify_store
from chenxing.kvcache.catalog import MAX_DEFAULT_BYTES, make_room, size_on_disk
from chenxing.kvcache.files import Files


def test_the_limit_holds_while_it_grows_and_du_agrees(tmp_path):
    limit = 30 * BIG
    cache = open_cache(tmp_path, page_bytes=BIG, ram_bytes=100 * BIG, disk_bytes=limit)
    for seed in range(12):
        text = ids(4 * PAGE, seed)
        sequence = cache.begin(text, N_CTX)
        assert sequence.reserve(len(text))
        sequence.commit(text)
        sequence.release()
        cache.flush()
        (info,) = list_stores(tmp_path)
        assert size_on_disk(info.folder) <= limit
    assert cache.stats().n_evicted_disk > 0 and cache.stats().n_pages_disk > 20
    cache.close()


def test_a_lower_limit_holds_from_the_start(tmp_path):
    cache = open_cache(tmp_path, page_bytes=BIG, ram_bytes=100 * BIG)
    for seed in range(10):
        sequence = cache.begin(ids(4 * PAGE, seed), N_CTX)
        sequence.reserve(4 * PAGE)
        sequence.commit(ids(4 * PAGE, seed))
        sequence.release()
    cache.close()
    cache = open_cache(tmp_path, page_bytes=BIG, ram_bytes=100 * BIG, disk_bytes=15 * BIG)
    cache.begin([1], N_CTX).release()
    cache.flush()
    (info,) = list_stores(tmp_path)
    if sys.platform == "linux":  # elsewhere holes in the midst of the file are only used again
        assert size_on_disk(info.folder) <= 15 * BIG
    assert info.n_pages <= 15
    assert cache.match([*ids(4 * PAGE, 9), 0]) == 4 * PAGE and cache.match(ids(4 * PAGE, 0)) == 0  # oldest first
    cache.close()
    assert verify_store(info.folder).n_damaged == 0


def test_the_order_of_use_survives(tmp_path):
    cache = open_cache(tmp_path)
    for seed in (0, 1, 0):
        remember(cache, [*ids(4 * PAGE, seed), 0])
    cache.close()
    cache = open_cache(tmp_path, disk_bytes=7 * PAGE_BYTES + 8192)
    assert cache.match(ids(4 * PAGE, 0)) == 4 * PAGE - 1 and cache.match(ids(4 * PAGE, 1)) == 3 * PAGE
    cache.close()


def test_other_stores_go_first_the_oldest_before(tmp_path):
    for i, name in enumerate("abc"):
        cache = open_cache(tmp_path, name)
        remember(cache, ids(500))
        cache.close()
        for info in list_stores(tmp_path):
            if info.fingerprint["name"] == name:
                os.utime(info.folder / "index", (1000 + i, 1000 + i))
    held = open_cache(tmp_path, "a")  # in use: it stays, though it is the oldest
    sizes = {info.fingerprint["name"]: info.n_bytes for info in list_stores(tmp_path)}
    cache = open_cache(tmp_path, "d", disk_bytes=sizes["a"] + sizes["c"] + 100_000)
    assert {info.fingerprint["name"] for info in list_stores(tmp_path)} >= {"a", "c"}
    cache.close()
    cache = open_cache(tmp_path, "d", disk_bytes=sizes["a"] + 8192)
    assert {info.fingerprint["name"] for info in list_stores(tmp_path)} == {"a", "d"}
    cache.close()
    held.close()


def test_what_cannot_be_removed_still_counts(tmp_path, monkeypatch):
    for name in "ab":
        cache = open_cache(tmp_path, name)
        remember(cache, ids(500))
        cache.close()
    folder = next(info.folder for info in list_stores(tmp_path) if info.fingerprint["name"] == "a")
    unlink = Path.unlink

    def unlink_but_what_is_open(path: Path, missing_ok: bool = False) -> None:
        if path.name == "pages":  # as Windows does where another process reads it
            raise PermissionError(13, "in use", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_but_what_is_open)
    n_left = (folder / "pages").stat().st_blocks * 512
    own = next(info.folder for info in list_stores(tmp_path) if info.fingerprint["name"] == "b")
    assert make_room(tmp_path, own, disk_bytes=0, needed=0) == n_left


def test_no_room_at_all_is_memory_only(tmp_path):
    cache = open_cache(tmp_path, disk_bytes=0)
    remember(cache, ids(100))
    assert remember(cache, [*ids(100), 0]) == 100
    assert cache.stats().n_pages_disk == 0
    cache.close()


def test_the_index_is_rewritten(tmp_path):
    cache = open_cache(tmp_path)
    remember(cache, ids(100))
    for _ in range(1000):
        cache.begin(ids(100), N_CTX).release()
    cache.close()
    (info,) = list_stores(tmp_path)
    assert (info.folder / "index").stat().st_size < 5000
    assert (info.n_requests, info.n_reused, info.n_tokens) == (1000, 99_000, 100)
    cache = open_cache(tmp_path)
    assert remember(cache, [*ids(100), 0]) == 100
    cache.close()


class Busy(Files):
    def replace(self, source: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, "Another process has it open")


def test_an_index_that_cannot_be_replaced_grows_on(tmp_path):
    cache = open_cache(tmp_path, files=Busy())
    for n in range(300):
        remember(cache, ids(100, n % 3))
    assert cache.stats().is_writer
    cache.close()
    cache = open_cache(tmp_path)
    assert remember(cache, [*ids(100, 2), 0]) == 100
    cache.close()


def test_default_limit(tmp_path):
    assert 0 < default_disk_bytes(tmp_path / "not" / "there") <= MAX_DEFAULT_BYTES
