"""`chenxing cache`: what is there, by section, and what `clear` leaves."""

import json
import os
import time
from pathlib import Path

import pytest
from kvcache.pattern import PAGE_BYTES, compute

from chenxing import cli, config
from chenxing.kernels.library import build_id
from chenxing.kvcache import KVCache
from chenxing.kvcache.files import Files
from chenxing.kvcache.lock import WriterLock
from chenxing.terminal.cache_command import age
from chenxing.terminal.cache_sections import SECTIONS


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CHENXING_HOME", str(tmp_path))
    config.settings.cache_clear()
    for name in ("tokenizers/a.bin", "tokenizers/b.bin", f"kernels/{build_id()}/k.avx2.o", "weights/x.pack"):
        path = tmp_path / "cache" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(1000))
    os.utime(tmp_path / "cache/weights/x.pack", (0, time.time() - 7300))
    yield tmp_path / "cache"
    config.settings.cache_clear()


def test_it_is_shown_as_a_table(cache, capsys):
    assert cli.main(["cache"]) == 0
    header, *rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert header == ["SECTION", "ENTRY", "SIZE", "LAST USE"]
    assert rows == [
        ["weights", "damaged or of another version", "1 kB", "2 hours ago"],
        ["kernels", f"build {build_id()[:8]} (current): 1 for avx2", "1 kB", "just now"],
        ["tokenizers", "2 files", "2 kB", "just now"],
    ]


def test_json_for_programs(cache, capsys):
    assert cli.main(["cache", "show", "tokenizers", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["section"], row["entry"], row["bytes"]) == ("tokenizers", "2 files", 2000)
    assert abs(row["last_use"] - time.time()) < 60


def test_clear_takes_the_named_sections_alone(cache, capsys):
    assert cli.main(["cache", "clear", "weights", "tokenizers"]) == 0
    assert capsys.readouterr().out == "weights: 1 kB freed\ntokenizers: 2 kB freed\n"
    assert [p.name for p in cache.iterdir()] == ["kernels"]
    assert cli.main(["cache", "clear", "all"]) == 0
    assert list(cache.iterdir()) == []


def test_nothing_is_cleared_by_guess(cache, capsys):
    for argv in (["clear"], ["clear", "models"], ["clear", "weights", "--json"], ["empty"]):
        assert cli.main(["cache", *argv]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert len([p for p in cache.rglob("*") if p.is_file()]) == 4


def keep_prompt(cache: Path, name: str, n_tokens: int) -> None:
    """A store of this model with one prompt, used once."""
    kv = KVCache(
        PAGE_BYTES, ram_bytes=100 * PAGE_BYTES, folder=cache / "kv", disk_bytes=1 << 30,
        fingerprint={"name": name, "weights": name, "kv_type": "f16"},
    )  # fmt: skip
    ids = list(range(n_tokens))
    for _ in range(2):
        sequence = kv.begin([*ids, 0], n_tokens + 1)
        if not sequence.n_cached:
            assert compute(sequence, ids)
        sequence.release()
    kv.close()


def test_kv_is_shown_verified_and_cleared_by_model(cache, capsys):
    keep_prompt(cache, "one.gguf", 70)
    keep_prompt(cache, "two.gguf", 40)
    assert cli.main(["cache", "show", "kv"]) == 0
    entries = sorted(line.split("\t")[1] for line in capsys.readouterr().out.splitlines()[1:])
    assert entries == [
        "one.gguf f16: 70 tokens, 1 request reused 70", "two.gguf f16: 40 tokens, 1 request reused 40",
    ]  # fmt: skip
    assert cli.main(["cache", "show", "kv", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert sorted((r["tokens"], r["requests"], r["tokens_reused"], r["in_use"]) for r in rows) == [
        (40, 1, 40, False), (70, 1, 70, False),
    ]  # fmt: skip
    assert cli.main(["cache", "verify"]) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "one.gguf: 3 pages are sound, 0 damaged", "two.gguf: 2 pages are sound, 0 damaged",
    ]  # fmt: skip
    (folder,) = (Path(r["folder"]) for r in rows if r["tokens"] == 70)
    with (folder / "pages").open("r+b") as file:
        file.write(b"x")
    assert cli.main(["cache", "verify", "one"]) == 1
    assert capsys.readouterr().out == "one.gguf: 2 pages are sound, 1 damaged\n"
    assert cli.main(["cache", "clear", "kv", "models/one.gguf"]) == 0
    assert "freed" in capsys.readouterr().out and not folder.exists()
    assert cli.main(["cache", "clear", "kv", "one"]) == 1 + 1
    assert "one: no prompts of this model are kept on disk; there are those of: two.gguf" in capsys.readouterr().err
    assert cli.main(["cache", "clear", "kv"]) == 0
    assert not (cache / "kv").exists()


def test_a_store_that_is_being_written_is_left_alone(cache, capsys):
    keep_prompt(cache, "one.gguf", 70)
    (folder,) = (cache / "kv").iterdir()
    lock = WriterLock.acquire(Files(), folder / "lock")
    assert lock and cli.main(["cache", "clear", "kv"]) == 0
    assert capsys.readouterr().out == "kv: 0 B freed; 1 model could not be removed\n"
    lock.release()
    assert cli.main(["cache", "verify", "kv"]) == 0


def test_an_empty_cache_is_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CHENXING_HOME", str(tmp_path))
    config.settings.cache_clear()
    assert cli.main(["cache"]) == 0 and capsys.readouterr().out.count("\n") == 1
    assert cli.main(["cache", "clear", "all"]) == 0
    assert capsys.readouterr().out.count("0 B freed") == len(SECTIONS)
    config.settings.cache_clear()


def test_ages():
    assert [age(s) for s in (-5, 59, 60, 3599, 7200, 86400, 10**6)] == [
        "just now", "just now", "1 minute ago", "59 minutes ago", "2 hours ago", "1 day ago", "11 days ago",
    ]  # fmt: skip
