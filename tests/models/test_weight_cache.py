"""The folder of packed weights: found again, never trusted, bounded, and done without where it cannot be."""

import mmap
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from packed_models import SPECS, contents, write_model

from chenxing import config
from chenxing.gguf import open_gguf
from chenxing.models import weight_cache
from chenxing.models.weight_cache import cached_models, folder, limit_bytes, open_packed


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("CHENXING_HOME", str(tmp_path / "home"))
    config.settings.cache_clear()
    yield tmp_path / "home"
    config.settings.cache_clear()


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch):
    def set_limit(text: str) -> None:
        monkeypatch.setenv("CHENXING_WEIGHT_CACHE_LIMIT", text)
        config.settings.cache_clear()

    return set_limit


def pack_some(tmp_path: Path, n: int) -> list[Path]:
    """Packed files of n models, the first one least recently used."""
    files = []
    for seed in range(n):
        before = set(folder().glob("*.pack"))
        open_packed(open_gguf(write_model(tmp_path / f"m{seed}.gguf", seed)), SPECS)
        (path,) = set(folder().glob("*.pack")) - before
        os.utime(path, (seed, seed))
        files.append(path)
    return files


def test_packed_once_and_found_again(home, tmp_path, monkeypatch):
    model = open_gguf(write_model(tmp_path / "m.gguf"))
    seen = []
    first = open_packed(model, SPECS, lambda stage, fraction: seen.append((stage, fraction)))
    assert seen[-1][0] == "pack weights" and 0.0 < seen[0][1] <= seen[-1][1] <= 1.0
    assert first.origin == "packed into the cache, mapped"
    monkeypatch.setattr(weight_cache, "write_packed", None)
    again = open_packed(model, SPECS)
    assert again.origin == "mapped from the cache" and contents(again) == contents(first)


def test_the_identity_is_of_the_weights_alone(home, tmp_path):
    path = write_model(tmp_path / "m.gguf")
    specs = SPECS[:2]  # c.weight is then used as the file has it
    identity = open_packed(open_gguf(path), specs).identity
    moved = path.rename(tmp_path / "moved.gguf")
    os.utime(moved, (5, 5))
    assert open_packed(open_gguf(moved), specs).identity == identity
    assert open_packed(open_gguf(moved), specs).origin == "mapped from the cache"
    assert open_packed(open_gguf(moved), specs, use_cache=False).identity == identity
    for name in ("a.weight", "b.weight", "c.weight"):
        tensor = open_gguf(moved).tensors[name]
        data = bytearray(moved.read_bytes())
        data[tensor.offset + 2] ^= 1
        path.write_bytes(data)
        for use_cache in (True, False):
            assert open_packed(open_gguf(path), specs, use_cache=use_cache).identity != identity, name


def test_a_damaged_file_is_packed_anew(home, tmp_path):
    model = open_gguf(write_model(tmp_path / "m.gguf"))
    good = contents(open_packed(model, SPECS))
    (path,) = folder().glob("*.pack")
    whole = path.read_bytes()
    for bad in (b"", whole[:-1], whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:]):
        path.unlink()
        path.write_bytes(bad)
        assert contents(open_packed(model, SPECS)) == good
        assert path.read_bytes() == whole


def test_another_file_in_the_model_s_place_is_not_taken_for_it(home, tmp_path):
    path = write_model(tmp_path / "m.gguf")
    first = contents(open_packed(open_gguf(path), SPECS))
    path.unlink()
    write_model(path, seed=1)
    assert contents(open_packed(open_gguf(path), SPECS)) != first
    assert len(list(folder().glob("*.pack"))) == 1  # what was made from the old content is gone


@pytest.mark.parametrize("size", ["0", "10kB"])
def test_what_does_not_fit_is_packed_in_memory(home, tmp_path, limit, size):
    model = open_gguf(write_model(tmp_path / "m.gguf"))
    expected = contents(open_packed(model, SPECS))
    shutil.rmtree(home)
    limit(size)
    packed = open_packed(model, SPECS)
    assert packed.origin.startswith("packed in memory: ") and contents(packed) == expected
    assert not list(folder().glob("*.pack"))


def test_without_the_cache_nothing_is_read_or_written(home, tmp_path):
    model = open_gguf(write_model(tmp_path / "m.gguf"))
    packed = open_packed(model, SPECS, use_cache=False)
    assert not home.exists() and packed.origin.startswith("packed in memory: ")
    assert all(packed.array(s.name).ctypes.data % 64 == 0 for s in SPECS)
    assert contents(packed) == contents(open_packed(model, SPECS))


def test_a_cache_that_cannot_be_written_is_done_without(home, tmp_path):
    home.write_text("a file where the folder should be")
    packed = open_packed(open_gguf(write_model(tmp_path / "m.gguf")), SPECS)
    assert packed.origin.startswith("packed in memory: the cache cannot be written")


def test_the_least_recently_used_goes_first(home, tmp_path, limit):
    files = pack_some(tmp_path, 3)
    size = files[0].stat().st_size
    open_packed(open_gguf(tmp_path / "m0.gguf"), SPECS)  # now it is the last used one
    limit(str(3 * size + 1000))
    open_packed(open_gguf(write_model(tmp_path / "m3.gguf", 3)), SPECS)
    assert [path.exists() for path in files] == [True, False, True]
    assert len(cached_models(folder())) == 3


def test_a_file_whose_model_is_gone_goes_before_all(home, tmp_path, limit):
    files = pack_some(tmp_path, 3)
    (tmp_path / "m2.gguf").unlink()
    limit(str(3 * files[0].stat().st_size + 1000))
    open_packed(open_gguf(write_model(tmp_path / "m3.gguf", 3)), SPECS)
    assert [path.exists() for path in files] == [True, True, False]


def test_what_is_mapped_outlives_its_file(home, tmp_path, limit):
    model = open_gguf(write_model(tmp_path / "m0.gguf"))
    open_packed(model, SPECS)
    mapped = open_packed(model, SPECS)
    before = contents(mapped)
    limit(str(next(folder().glob("*.pack")).stat().st_size + 1000))
    open_packed(open_gguf(write_model(tmp_path / "m1.gguf", 1)), SPECS)
    assert contents(mapped) == before


def test_what_an_interrupted_start_left_is_removed(home, tmp_path):
    folder().mkdir(parents=True)
    old, new = folder() / "a.pack1.tmp", folder() / "b.pack2.tmp"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, time.time() - 7200))
    pack_some(tmp_path, 1)
    assert not old.exists() and new.exists()


def test_first_starts_at_the_same_time_pack_once(home, tmp_path, monkeypatch):
    model = open_gguf(write_model(tmp_path / "m.gguf"))
    written, write = [], weight_cache.write_packed

    def counted(*args):
        written.append(1)
        time.sleep(0.05)
        write(*args)

    monkeypatch.setattr(weight_cache, "write_packed", counted)
    threads = [threading.Thread(target=open_packed, args=(model, SPECS)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert written == [1]


def test_the_list_names_models_and_what_is_damaged(home, tmp_path):
    files = pack_some(tmp_path, 2)
    (folder() / "x.pack").write_bytes(b"nothing of ours")
    damaged, *known = cached_models(folder())
    assert damaged.model is None and damaged.n_bytes == 15
    assert [m.path for m in known] == files[::-1] and known[0].model == tmp_path / "m1.gguf"


def test_the_default_limit_is_a_share_of_the_disk(home, tmp_path, monkeypatch):
    free = {"bytes": 80 << 30}
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: type("U", (), {"free": free["bytes"]}))
    assert limit_bytes(tmp_path, 20 << 30) == 20 << 30
    free["bytes"] = 4 << 40
    assert limit_bytes(tmp_path, 0) == 64 << 30


@pytest.mark.skipif(not hasattr(mmap, "MADV_DONTNEED") or not Path("/proc/self/smaps").exists(), reason="needs Linux")
def test_the_model_s_own_pages_are_released(home, tmp_path):
    path = tmp_path / "large.gguf"
    specs = large_model(path)
    packed = open_packed(open_gguf(path), specs, use_cache=False)
    assert packed.n_bytes > 1 << 20 and resident_bytes(path) < 1 << 18


def large_model(path: Path):
    import numpy as np
    from gguf import GGMLQuantizationType, GGUFWriter

    from chenxing.models.spec import matrix

    writer = GGUFWriter(path, "llama")
    writer.add_tensor("a.weight", np.ones((1024, 512), np.float32), raw_dtype=GGMLQuantizationType.F32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return [matrix("a.weight", 1024, 512)]


def resident_bytes(path: Path) -> int:
    """Of the mappings of a file in this process."""
    total, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split(None, 1)[0]
        if "-" in first and not first.endswith(":"):
            ours = line.endswith(str(path))
        elif ours and first == "Rss:":
            total += int(line.split()[1]) * 1024
    return total
