"""Files of a store that are flipped, cut or removed, before or while they are open: recomputation at most (L5)."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from invariants import victim
from kvcache.pattern import check, compute

BYTES, N_TEXTS = 1 << 30, 8


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    """A folder with one store of some 30 pages."""
    folder = tmp_path_factory.mktemp("sound") / "kv"
    victim.load(folder, 0, N_TEXTS, BYTES, victim.Files(), lambda i: None)
    return folder


def damage(folder: Path, rng: np.random.Generator) -> None:
    path = sorted(p for p in folder.rglob("*") if p.is_file())[rng.integers(3)]
    size = path.stat().st_size
    action = rng.integers(10)
    if action == 0:
        path.unlink()
    elif action == 1:
        shutil.rmtree(path.parent)
    elif action <= 4:
        with path.open("r+b") as file:
            file.truncate(rng.integers(size + 1))
    elif size:
        with path.open("r+b") as file:
            at = int(rng.integers(size))
            file.seek(at)
            byte = file.read(1)[0] ^ (1 << rng.integers(8))
            file.seek(at)
            file.write(bytes([byte]))


def use(cache: victim.KVCache) -> None:
    """Every prompt begins with right KV only, and can be computed."""
    for ids in victim.texts(0, N_TEXTS):
        sequence = cache.begin(ids, victim.N_CTX)
        assert sequence.n_cached < len(ids)
        check(sequence, ids[: sequence.n_cached])
        assert compute(sequence, ids[sequence.n_cached :])
        check(sequence, ids)
        sequence.release()
    cache.check_integrity()


def try_once(sound: Path, folder: Path, rng: np.random.Generator) -> int:
    """-> pages that were damaged"""
    shutil.copytree(sound, folder)
    is_open = rng.random() < 0.5
    if not is_open:
        damage(folder, rng)
    cache = victim.open_cache(folder, BYTES)
    if is_open:
        damage(folder, rng)
    use(cache)
    n_damaged = cache.stats().n_damaged
    cache.close()
    cache = victim.open_cache(folder, BYTES)
    use(cache)
    cache.close()
    cache = victim.open_cache(folder, BYTES)
    for ids in victim.texts(0, N_TEXTS):
        assert cache.match([*ids, 0]) >= len(ids) or is_open  # an index damaged while open is noticed when next opened
    use(cache)
    assert cache.stats().n_damaged == 0 or is_open
    cache.close()
    shutil.rmtree(folder)
    return n_damaged


def try_often(sound: Path, folder: Path, n: int, seed: int) -> int:
    rng = np.random.default_rng(seed)
    return sum(try_once(sound, folder, rng) for _ in range(n))


def test_some_damage(sound, tmp_path):
    assert try_often(sound, tmp_path / "kv", 40, seed=0) > 0


@pytest.mark.slow
def test_much_damage(sound, tmp_path):
    assert try_often(sound, tmp_path / "kv", 1000, seed=1) > 0


def test_reuse_ends_where_the_damage_is(tmp_path):
    ids = list(range(5 * 32))
    cache = victim.open_cache(tmp_path, BYTES)
    sequence = cache.begin(ids, victim.N_CTX)
    compute(sequence, ids)
    sequence.release()
    cache.close()
    (pages,) = tmp_path.rglob("pages")
    with pages.open("r+b") as file:
        file.seek(3 * victim.PAGE_BYTES + 7)
        file.write(b"\xff")
    cache = victim.open_cache(tmp_path, BYTES)
    assert cache.match([*ids, 0]) == len(ids)
    sequence = cache.begin([*ids, 0], victim.N_CTX)
    assert sequence.n_cached == 3 * 32
    check(sequence, ids[: 3 * 32])
    sequence.release()
    assert cache.stats().n_damaged == 1 and cache.match([*ids, 0]) == 3 * 32
    cache.check_integrity()
    cache.close()
