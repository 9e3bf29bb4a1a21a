"""The race runs what it says, in turn, and reads both reports the same way. Stand-ins take the programs' place."""

import json
import stat
import sys
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.answer import Answer, ratio, speed_answer
from benchmarks.case import BenchModel, Case, Samples
from benchmarks.race import Race, missing

MODEL = BenchModel("a model", Path("a.gguf"))


class StandInRace(Race):
    """Our program is a stand-in too; both append their arguments to a file."""

    def ours(self, case: Case) -> list[str]:
        assert self.peer
        return [str(self.peer / "ours"), *case.flags, "-r", str(self.n_repetitions)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    if sys.platform == "win32":
        pytest.skip("stand-ins are scripts")
    log = tmp_path / "log"
    result = {"read_bytes_per_s": 8e9, "plain_read_bytes_per_s": 1e10, "macs_per_s": None}
    for name, rates in (("ours", [30.0, 20.0]), ("llama-bench", [5.0, 10.0])):
        text = json.dumps([{"samples_ts": rates, **result}])
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\necho {name} \"$@\" >> '{log}'\necho '{text}'\n")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return tmp_path


def test_both_run_in_turn_with_the_same_flags(folder: Path) -> None:
    case = Case(MODEL, 2, n_gen=16, n_depth=64)
    samples = StandInRace(folder, n_rounds=2, n_repetitions=3).run(case)
    flags = "-p 0 -n 16 -d 64 -t 2 -r 3"
    lines = (folder / "log").read_text().splitlines()
    assert lines == [f"ours {flags}", f"llama-bench -m a.gguf -fa 1 {flags} -o json"] * 2
    assert samples.ours == [30.0, 20.0] * 2 and samples.peer == [5.0, 10.0] * 2
    assert samples.beside == {"read_bytes_per_s": [8e9, 8e9], "plain_read_bytes_per_s": [1e10, 1e10]}
    assert ratio(samples) == 25 / 7.5


def test_a_wrapper_and_a_busy_neighbour_come_first(folder: Path, tmp_path: Path) -> None:
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f"#!/bin/sh\necho wrap >> '{folder / 'log'}'\nexec \"$@\"\n")
    wrapper.chmod(0o755)
    race = StandInRace(folder, n_rounds=1, n_repetitions=1, wrap=[str(wrapper)])
    assert race.run(Case(MODEL, 1, n_prompt=8, beside_busy=True)).peer == [5.0, 10.0]
    assert [line.split()[0] for line in (folder / "log").read_text().splitlines()] == [
        "wrap", "ours", "wrap", "llama-bench",
    ]  # fmt: skip


def test_a_missing_peer_is_said(tmp_path: Path) -> None:
    assert "CHENXING_PEER" in (missing(None) or "")
    assert "holds no llama-bench" in (missing(tmp_path) or "")
    (tmp_path / "llama-bench").touch()
    assert missing(tmp_path) is None


def test_the_report_keeps_what_stands_around_the_figures(tmp_path: Path) -> None:
    answer = speed_answer(Case(MODEL, 1, n_prompt=512, goal=2.0), Samples([30.0, 10.0, 20.0], [10.0]))
    alone = speed_answer(Case(MODEL, 2, n_prompt=512), Samples([30.0]))
    report.save(tmp_path, "prefill", "Prefill", "A note.", ["CPU: one"], [answer, alone])
    report.save(tmp_path, "decode", "Decode", "Another.", ["CPU: one"], [Answer({"model": "m"}, {})])
    document = tmp_path / "doc.md"
    document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    figures = report.markdown(tmp_path, ["prefill", "decode", "absent"])
    report.put_figures(document, figures)
    text = document.read_text()
    assert text.startswith("before\n") and text.endswith(f"{report.END}\nafter\n") and "old" not in text
    assert text.count("CPU: one") == 1
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert rows[0] == ["model", "threads", "test", "chenxing", "llama.cpp", "ratio", "goal"]
    assert rows[2] == ["a model", "1", "pp512", "20.0 (10.0..30.0)", "10.0 (10.0..10.0)", "2.00 x", "2.00 x"]
    assert rows[3] == ["a model", "2", "pp512", "30.0 (30.0..30.0)", "not measured", "", ""]
    assert json.loads((tmp_path / "prefill.json").read_text())["measured"][0]["ratio"] == 2.0
