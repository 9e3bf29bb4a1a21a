"""`chenxing bench --prompts`: what is counted, how it is printed, and a real model."""

import json
from pathlib import Path

import pytest

from chenxing import cli
from chenxing.hub.describe import ModelDescription
from chenxing.kernels.layout import PAGE
from chenxing.terminal.bench_streams import Repetition, Streams, StreamsResult
from chenxing.terminal.bench_streams_report import streams_head, streams_json, streams_row

MODEL = ModelDescription(
    (Path("m.gguf"),), "M", "llama", 10**8, 0, "Q8_0", (), None, None, None, None, None, None, None, None, (), None, {},
)  # fmt: skip
RUN = Repetition([[1.0, 1.5, 2.0], [2.0, 2.25, 4.0]])
RESULT = StreamsResult(Streams(2, 100, 3), "avx2", 2, [RUN])


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_figures_of_times() -> None:
    assert (RUN.seconds, RUN.first_seconds) == (4.0, [1.0, 2.0])
    assert RUN.stream_rates == [2.0, 1.0] and RUN.gaps == [0.5, 0.5, 0.25, 1.75]
    assert RESULT.figures() == {
        "prompt_ts": 100.0,
        "total_ts": 1.5,
        "stream_ts": 1.5,
        "first_ms": 1500.0,
        "first_max_ms": 2000.0,
        "gap_ms": 500.0,
        "gap_p95_ms": 500.0,
    }


def test_the_context_holds_all_streams() -> None:
    assert Streams(4, 2 * PAGE, 1).n_ctx >= 4 * 3 * PAGE


def test_one_token_has_no_time_between_tokens() -> None:
    result = StreamsResult(Streams(1, 10, 1), "avx2", 1, [Repetition([[0.5]])])
    assert result.figures()["gap_ms"] == 0
    assert cells(streams_row(MODEL, result))[-3:] == ["", "500 (500)", ""]


def test_the_table_and_json_say_what_was_measured() -> None:
    head, line = streams_head(), streams_row(MODEL, RESULT)
    assert len({len(text) for text in [*head, line]}) == 1
    assert cells(line)[:6] == ["llama 100M Q8_0", "avx2", "2", "2", "100", "3"]
    assert cells(line)[6:] == ["100.0", "1.5", "1.5", "1500 (2000)", "500.0 (500.0)"]
    (found,) = json.loads(streams_json(MODEL, [RESULT]))
    assert (found["n_streams"], found["n_prompt"], found["n_gen"], found["total_ts"]) == (2, 100, 3, 1.5)
    assert (found["model_type"], found["n_threads"], found["first_max_ms"]) == ("llama 100M Q8_0", 2, 2000.0)


def test_what_cannot_be_measured_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for flags in (["-p", "0"], ["-d", "16"], ["--prompts", "65"]):
        assert cli.main(["bench", "no-such-model", "--prompts", "4", *flags]) == cli.EXIT_USAGE
        assert "--prompts: expected" in capsys.readouterr().err


@pytest.mark.model
def test_streams_of_a_real_model(smollm2_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [
        "bench",
        str(smollm2_path),
        "--prompts",
        "4",
        "--new-tokens",
        "8",
        "--prompt-tokens",
        "16,300",
        "-r",
        "1",
    ]
    assert cli.main([*command, "-o", "json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert [(r["n_streams"], r["n_prompt"], r["n_gen"]) for r in results] == [(4, 16, 8), (4, 300, 8)]
    assert all(
        r["total_ts"] > 0 and r["first_max_ms"] >= r["first_ms"] > 0 and r["gap_p95_ms"] >= r["gap_ms"] > 0
        for r in results
    )
