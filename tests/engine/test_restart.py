"""After a restart the answer to a known prompt is the cold one, bit by bit: every architecture, every KV type."""

from pathlib import Path

import numpy as np
import pytest
from reference.toys import TOYS, prompt

from chenxing import LLM, config
from chenxing.config import read_settings
from chenxing.errors import UsageError
from chenxing.models import ARCHITECTURES

CASES = [("llama-Q8_0", kv_type) for kv_type in ("bf16", "f32", "q8_0")] + [
    (name, "f16") for name in sorted(ARCHITECTURES)
]
N_GREEDY = 6


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kernels come from the user's cache; weights and KV go elsewhere. -> where"""
    home = tmp_path / "home"
    for module in ("chenxing.models.weight_cache", "chenxing.engine.cache_room"):
        monkeypatch.setattr(f"{module}.settings", lambda: read_settings({"CHENXING_HOME": str(home)}))
    return config.read_settings({"CHENXING_HOME": str(home)}).paths.cache / "kv"


def answer(llm: LLM, ids: list[int]) -> tuple[int, int, np.ndarray]:
    """-> tokens reused, of these from disk, i32 bits of the logits after the prompt and after each greedy token"""
    engine = llm._engine
    n_cached, logits = engine.prompt(ids)
    assert engine._sequence
    n_from_disk = engine._sequence.n_from_disk
    rows = [logits.copy()]
    for _ in range(N_GREEDY):
        rows.append(engine.append(int(rows[-1].argmax())).copy())
    return n_cached, n_from_disk, np.stack(rows).view(np.int32)


@pytest.mark.parametrize(("name", "kv_type"), CASES)
def test_hit_is_miss(name: str, kv_type: str, tmp_path: Path, cache: Path) -> None:
    toy, ids = TOYS[name], prompt(100)
    path, options = toy.write(tmp_path), {"n_ctx": toy.n_ctx, "kv_type": kv_type, "n_threads": 2}
    with LLM.load(path, **options, disk_cache=False) as llm:
        n_cached, _, cold = answer(llm, ids)
        assert n_cached == 0
        n_cached, n_from_disk, again = answer(llm, ids)
        assert (n_cached, n_from_disk) == (99, 0) and np.array_equal(again, cold)
    assert not cache.exists()
    with LLM.load(path, **options) as llm:
        answer(llm, ids[:50])
    moved = path.rename(tmp_path / "moved.gguf")
    with LLM.load(moved, **options) as llm:
        n_cached, n_from_disk, half = answer(llm, ids)
        assert (n_cached, n_from_disk) == (50, 50) and np.array_equal(half, cold)
    with LLM.load(moved, **options) as llm:
        assert answer(llm, ids)[:2] == (99, 99)
        assert llm.cache_stats.n_damaged == 0
        n_cached, n_from_disk, warm = answer(llm, ids)
        assert (n_cached, n_from_disk) == (99, 3)  # the last tokens' own page is copied from the disk each time
        assert np.array_equal(warm, cold)
    assert len(list(cache.iterdir())) == 1


def test_logits_keep_nothing(tmp_path: Path, cache: Path) -> None:
    toy, ids = TOYS["llama"], prompt(100)
    path = toy.write(tmp_path)
    with LLM.load(path, n_ctx=toy.n_ctx) as llm:
        expected = llm.logits(ids, 99)[0].copy()
        assert llm.cache_stats.n_tokens == 0 and llm.cache_stats.n_pages_disk == 0
        n_cached, logits = llm._engine.prompt(ids)
        assert n_cached == 0 and np.array_equal(logits.view(np.int32), expected.view(np.int32))
    with LLM.load(path, n_ctx=toy.n_ctx) as llm:
        assert np.array_equal(llm.logits(ids, 99)[0], expected)
        assert llm.cache_stats.n_restored == 0


def test_limits_hold(tmp_path: Path, cache: Path) -> None:
    toy, ids = TOYS["llama"], prompt(200)
    path = toy.write(tmp_path)
    with LLM.load(path, n_ctx=toy.n_ctx, cache_disk_bytes=0) as llm:
        llm._engine.prompt(ids)
    assert not cache.exists()
    with LLM.load(path, n_ctx=toy.n_ctx) as llm:
        llm._engine.prompt(ids)
    full = sum(f.stat().st_size for f in cache.rglob("*"))
    limit = full // 2
    with LLM.load(path, n_ctx=toy.n_ctx, cache_disk_bytes=limit) as llm:  # held to at the start already
        assert 0 < llm.cache_stats.n_bytes_disk < limit
        llm._engine.prompt(prompt(200, seed=2))
    assert 0 < sum(f.stat().st_size for f in cache.rglob("*") if f.is_file()) <= limit
    for name in ("cache_disk_bytes", "cache_ram_bytes"):
        with pytest.raises(UsageError, match=f"{name}: expected 0 or more, found -1"):
            LLM.load(path, **{name: -1})
