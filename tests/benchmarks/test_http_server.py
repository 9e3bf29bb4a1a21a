"""The questions about servers: both are started with the same flags, asked the same, and read the same way."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import stall, throughput
from benchmarks.case import BenchModel
from benchmarks.http_server import Server, Setting, p95, token_times
from benchmarks.race import Race

STAND_IN = [sys.executable, str(Path(__file__).with_name("stand_in_server.py"))]
MODEL = BenchModel("SmolLM2-135M Q4_1", Path("a.gguf"))


@pytest.fixture
def race(monkeypatch: pytest.MonkeyPatch) -> Race:
    """Both servers are the stand-in, and the model is not opened."""
    flags = property(lambda self: [*STAND_IN, *self._flags])
    monkeypatch.setattr(Setting, "ours", flags)
    monkeypatch.setattr(Setting, "peers", lambda self, race: self.ours)
    for module in (throughput, stall):
        monkeypatch.setattr(module, "open_gguf", lambda path: path)
        monkeypatch.setattr(module, "read_model", lambda path: SimpleNamespace(n_vocab=100))
    return Race(Path("peer"), n_rounds=1, n_repetitions=2, quick=True)


def test_flags_are_the_same_for_both() -> None:
    setting = Setting(Path("a.gguf"), 4096, 8, 2)
    flags = ["-m", "a.gguf", "-c", "4096", "-np", "8", "-t", "2"]
    assert setting.ours[-len(flags) - 2 :] == ["serve", *flags, "--no-disk-cache"]
    assert setting.peers(Race(Path("bin"))) == [str(Path("bin/llama-server")), *flags, "-fa", "on"]


def test_a_stream_is_read_until_nobody_wants_more() -> None:
    with Server(STAND_IN) as server:
        events = server.stream([1, 2], 5, lambda events: True)
        assert len(events) == 7 and len(token_times(events)) == 5
        assert len(server.stream([1, 2], 500, lambda events: len(events) < 3)) == 3
        with pytest.raises(SystemExit, match="answered 400: no such token"):
            server.stream([1000], 5, lambda events: True)


def test_a_server_that_ends_is_said() -> None:
    with pytest.raises(SystemExit, match="did not start"):
        with Server([sys.executable, "-c", "pass"]):
            pass


def test_p95() -> None:
    assert p95([5.0]) == 5.0 and p95([float(i) for i in range(101)]) == 95.0


def test_throughput(race: Race) -> None:
    (answer,) = throughput.ask([MODEL, BenchModel("another", Path("b.gguf"))], [1, 2], race)
    assert list(answer.cells) == ["model", "threads", "chenxing", "llama-server", "ratio", "goal", "first", "next"]
    assert answer.cells["threads"] == "2" and answer.cells["goal"] == "3.00 x"
    runs = answer.measured["ours"]
    assert len(runs) == len(answer.measured["peer"]) == 2  # repetitions
    assert all(r["total_ts"] > 0 and r["first_ms"] >= throughput.QUICK_PROMPT and r["gap_p95_ms"] >= 2 for r in runs)


def test_stall(race: Race) -> None:
    (answer,) = stall.ask([MODEL], [1, 2], race)
    assert list(answer.cells) == ["model", "threads", "chenxing", "llama-server", "ratio", "goal", "prompt"]
    runs = answer.measured["ours"]
    assert len(runs) == len(answer.measured["peer"]) == 2
    assert all(run["prompt_s"] >= stall.QUICK_PROMPT * 1e-3 for run in runs)
    assert all(run["gap_max_ms"] >= run["gap_p95_ms"] >= 2 for run in runs)


def test_a_stream_that_ends_too_early_measures_nothing() -> None:
    with Server(STAND_IN) as server:
        short = SimpleNamespace(stream=lambda ids, n, more: server.stream(ids, min(n, 20), more))
        with pytest.raises(SystemExit, match="ended before the prompt was computed"):
            stall._stalled(short, 100, 900, np.random.default_rng(1))
