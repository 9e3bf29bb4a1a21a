"""What is on disk: found again, by others too, within its limits, private, and never in the way (law L5)."""

import errno
import logging
import multiprocessing
import os
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
from kvcache.pattern import PAGE_BYTES, check, compute

from chenxing.kernels.layout import PAGE
from chenxing.kvcache import KVCache, clear_store, default_disk_bytes, list_stores, verify_store
from chenxing.kvcache.catalog import MAX_DEFAULT_BYTES, size_on_disk
from chenxing.kvcache.files import Files

N_CTX = 40 * PAGE
BIG = 4096 // PAGE_BYTES * PAGE_BYTES  # page_bytes where the size on disk matters


def ids(n: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, 1000, n).tolist()


def open_cache(folder: Path | None, name: str = "a", files: Files | None = None, **options: int) -> KVCache:
    sizes = {"page_bytes": PAGE_BYTES, "ram_bytes": 1000 * PAGE_BYTES, "disk_bytes": 1 << 30} | options
    fingerprint = {"name": name, "weights": name}
    return KVCache(sizes.pop("page_bytes"), folder=folder, fingerprint=fingerprint, files=files, **sizes)


def remember(cache: KVCache, text: list[int]) -> int:
    """Compute a prompt. -> tokens that were reused, and were right."""
    sequence = cache.begin(text, N_CTX)
    n_cached = sequence.n_cached
    check(sequence, text[:n_cached])
    assert compute(sequence, text[n_cached:])
    sequence.release()
    cache.check_integrity()
    return n_cached


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


# ---- limits ----


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


# ---- failures ----


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


# ---- several processes ----


def serve(folder: Path, pipe: Connection) -> None:
    """A process with a cache of its own: computes the prompts it is sent, answers how much it reused, and its role."""
    cache = open_cache(folder)
    while (text := pipe.recv()) is not None:
        n_cached = remember(cache, text)
        cache.flush()
        pipe.send((n_cached, cache.stats().is_writer))
    cache.close()
    pipe.send(None)


def test_two_processes_share_a_store(tmp_path):
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(tmp_path, theirs))
    process.start()
    text, other = ids(100, 0), ids(100, 1)

    def ask(prompt: list[int]) -> tuple[int, bool]:
        ours.send(prompt)
        return ours.recv()

    assert ask(text) == (0, True)
    cache = open_cache(tmp_path)
    assert remember(cache, [*text, 1]) == 100 and not cache.stats().is_writer
    assert ask([*text, 1, 2]) == (100, True)  # what a reader computes stays with it
    assert ask(other) == (0, True)
    assert remember(cache, [*other, 1]) == 100  # what the writer seals meanwhile is found
    ours.send(None)
    assert ours.recv() is None
    process.join()
    assert remember(cache, [*text, 1, 3]) == 101 and cache.stats().is_writer
    cache.close()
    cache = open_cache(tmp_path)
    assert remember(cache, [*text, 1, 3, 4]) == 102
    cache.close()


def test_a_reader_survives_the_writers_evictions(tmp_path):
    writer = open_cache(tmp_path, disk_bytes=12 * PAGE_BYTES + 40_000)
    remember(writer, ids(4 * PAGE, 0))
    writer.flush()
    reader = open_cache(tmp_path)
    assert reader.match(ids(4 * PAGE, 0)) == 4 * PAGE - 1
    for seed in range(1, 60):
        remember(writer, ids(8 * PAGE, seed))
    writer.flush()
    assert remember(reader, ids(4 * PAGE, 0)) == 0
    assert remember(reader, [*ids(8 * PAGE, 59), 0]) == 8 * PAGE
    reader.close()
    writer.close()


# ---- the catalogue ----


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
