"""`chenxing cache`: what is there, by section, and what `clear` leaves."""

import json
import os
import time
from pathlib import Path

import pytest

from chenxing import cli, config
from chenxing.kernels.library import build_id
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
