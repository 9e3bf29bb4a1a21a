"""`chenxing bench`: which tests run, what an engine is asked for in each, what is counted, how it is printed."""

import argparse
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from chenxing import cli
from chenxing.hub.describe import ModelDescription, TypeShare
from chenxing.models.work import Work
from chenxing.terminal import bench
from chenxing.terminal.bench import Result, Test, plan
from chenxing.terminal.bench_args import counts
from chenxing.terminal.bench_report import table_head, table_row, to_json

HP = SimpleNamespace(n_layer=2, n_kv=32, n_head_kv=1, head_dim=32, n_q=64, n_vocab=100, extra={})


class RecordingEngine:
    """Keeps what it is asked to compute: how many tokens of each prompt are new, and single tokens."""

    hp, isa, n_threads = HP, "avx2", 2

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int]] = []
        self._ids: list[int] = []

    def prompt(self, ids: list[int]) -> None:
        same = next((i for i, (a, b) in enumerate(zip(self._ids, ids, strict=False)) if a != b), None)
        n_cached = min(len(self._ids), len(ids)) if same is None else same
        self._ids = list(ids)
        self.calls.append(("prompt", len(ids), len(ids) - n_cached))

    def append(self, token: int) -> None:
        self._ids.append(token)
        self.calls.append(("append", len(self._ids), 1))


def test_lists_make_every_test_in_llama_bench_s_order() -> None:
    labels = [test.label for test in plan([512, 64], [128], [0, 4096])]
    assert labels == ["pp512", "pp64", "tg128", "pp512 @ d4096", "pp64 @ d4096", "tg128 @ d4096"]
    assert plan([0], [0], [0, 9]) == []


def test_lists_are_read_and_checked() -> None:
    assert counts(0)("0,512") == [0, 512]
    for text in ("1,,2", "0", "a", "-1", ""):
        with pytest.raises(argparse.ArgumentTypeError):
            counts(1)(text)


def measure(test: Test, n_repetitions: int) -> tuple[RecordingEngine, Result]:
    engine = RecordingEngine()
    work = Work(HP, weight_bytes=1000, layer_macs=50, output_macs=7)
    return engine, bench._measure(engine, work, test, n_repetitions, lambda: 2e9)


def test_a_prompt_is_new_every_time_and_its_depth_is_kept() -> None:
    engine, result = measure(Test(40, 0, 0), 3)
    assert [(kind, n) for kind, n, _ in engine.calls] == [("prompt", 40)] * 4  # with the warm-up
    assert all(new > 30 for _, _, new in engine.calls)
    assert len(result.seconds) == 3 and result.read_rates == [2e9] * 3
    assert result.bytes == 0 and result.macs == 40 * 50 + 2 * 64 * 2 * sum(range(1, 41)) + 7
    engine, _ = measure(Test(40, 0, 100), 2)
    timed = engine.calls[1::2]
    assert [n for _, n, _ in timed] == [140] * 3 and all(30 < new <= 40 for _, _, new in timed)


def test_single_tokens_start_from_an_empty_context_or_at_the_depth() -> None:
    engine, result = measure(Test(0, 20, 0), 1)
    assert engine.calls[8:] == [("prompt", 1, engine.calls[8][2]), *[("append", n, 1) for n in range(2, 21)]]
    kv = 4 * 32 * 2 * sum(range(1, 21))  # two f16 rows of 32 in each of two layers, for every key seen
    assert result.bytes == 20 * 1000 + kv and result.macs == 0
    engine, result = measure(Test(0, 20, 64), 1)
    assert engine.calls[-21][:2] == ("prompt", 64)
    assert engine.calls[-20:] == [("append", n, 1) for n in range(65, 85)]
    assert result.bytes == 20 * 1000 + 4 * 32 * 2 * sum(range(65, 85))


def test_window_layers_read_what_the_window_reaches() -> None:
    hp = SimpleNamespace(**{**vars(HP), "extra": {"n_swa": 10, "is_swa": (True, False)}})
    assert Work(hp, 0, 0, 0).kv_bytes(8, 4) == 2 * 32 * 2 * ((9 + 10 + 10 + 10) + (9 + 10 + 11 + 12))


MODEL = ModelDescription(
    (Path("m.gguf"),), "M", "llama", 1_235_814_432, 0, "Q4_K_M", (TypeShare("Q4_K", 1, 0, 2**29),),
    None, None, None, None, None, None, None, None, (), None, {},
)  # fmt: skip
RESULTS = [
    Result(Test(512, 0, 0), "avx2", 1, [4.0, 2.0, 1.0], [2e10, 3e10, 1e10], 0, 3 * 10**11),
    Result(Test(0, 128, 64), "avx2", 2, [4.0], [2e10], 6 * 10**10, 0),
]


def test_the_table_shows_medians_and_the_spread() -> None:
    head, rows = table_head(), [table_row(MODEL, result) for result in RESULTS]
    assert len({len(line) for line in head + rows}) == 1
    first, second = ([cell.strip() for cell in row.split("|")[1:-1]] for row in rows)
    assert first[:6] == ["llama 1.2B Q4_K_M", "512.00 MiB", "1.24 B", "avx2", "1", "pp512"]
    assert first[6:] == ["256.00 (128.00..512.00)", "", "20.0", "150.0"]
    assert second[5:] == ["tg128 @ d64", "32.00 (32.00..32.00)", "15.0", "20.0", ""]


def test_the_json_has_llama_bench_s_keys() -> None:
    first, second = json.loads(to_json(MODEL, RESULTS))
    assert (first["n_prompt"], first["n_gen"], first["n_depth"], first["n_threads"]) == (512, 0, 0, 1)
    assert first["samples_ts"] == [128.0, 256.0, 512.0] and first["samples_ns"] == [4 * 10**9, 2 * 10**9, 10**9]
    assert first["median_ts"] == 256 and first["avg_ts"] == pytest.approx(298.67, abs=0.01)
    assert first["macs_per_s"] == 1.5e11 and first["read_bytes_per_s"] is None
    assert second["stddev_ts"] == 0 and second["read_bytes_per_s"] == 1.5e10 and second["macs_per_s"] is None


def test_nothing_to_measure_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "no-such-model", "-p", "0", "-n", "0"]) == cli.EXIT_USAGE
    assert "nothing to measure" in capsys.readouterr().err


@pytest.mark.model
def test_a_real_model_is_measured(smollm2_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["bench", str(smollm2_path), "-p", "16", "-n", "4", "-d", "0,40", "-t", "1,2", "-r", "2", "-o", "json"]
    assert cli.main(command) == 0
    results = json.loads(capsys.readouterr().out)
    assert [(r["n_threads"], r["n_prompt"], r["n_gen"], r["n_depth"]) for r in results] == [
        (t, p, n, d) for t in (1, 2) for d in (0, 40) for p, n in ((16, 0), (0, 4))
    ]
    assert all(len(r["samples_ts"]) == 2 and r["plain_read_bytes_per_s"] > 0 for r in results)
    assert all((r["macs_per_s"] is None) == bool(r["n_gen"]) for r in results)
