"""The question about a stream over HTTP: what the plain client counts, and that pairs are of the same tokens."""

import json
from pathlib import Path

from reference.toys import TOYS
from test_http_server import MODEL, STAND_IN

from benchmarks import peer_stream, server, streams
from benchmarks.http_server import Server
from benchmarks.plain_client import mean_ms, stream
from benchmarks.race import Race


def test_the_plain_client_counts_the_tokens_alone() -> None:
    with Server(STAND_IN) as stand_in:
        arrived = stream(stand_in.port, 5)
    assert len(arrived.times) == 5 and arrived.times == sorted(arrived.times)
    assert arrived.ms >= 2  # the stand-in sleeps as long between two


def test_mean_ms() -> None:
    assert mean_ms([1.0, 5.0, 2.0]) == 500


def test_our_streams(tmp_path: Path) -> None:
    n = 8
    found = streams.main(str(TOYS["llama"].write(tmp_path)), n, 1)
    ((alone, streamed),) = found["pairs"]
    assert alone > 0 and streamed > 0
    assert all(len(found[name]["latency_ms"]) == n for name in ("alone", "parsed", "tokenised"))
    assert min(found["alone"]["latency_ms"]) > 0  # a token arrives after it was handed over
    assert found["cpu_us"]["server"][0] > 0 and found["cpu_us"]["client"][0] > 0


def test_cells(monkeypatch) -> None:
    of_tokens = {"latency_ms": [0.5, 0.5], "gap_ms": [8.0, 8.0]}
    ours = {"pairs": [(9.0, 10.0)], "cpu_us": {"server": [300.0], "client": [80.0]}}
    ours |= dict.fromkeys(("alone", "parsed", "tokenised"), of_tokens)

    def output(self: Race, command: list[str]) -> str:
        if "benchmarks.streams" in command:
            return json.dumps(ours)
        return json.dumps([10.0] if peer_stream.__name__ in command else [{"samples_ts": [125.0]}])

    monkeypatch.setattr(Race, "output", output)
    (answer,) = server.ask([MODEL], [2], Race(Path("peer"), n_rounds=1))
    assert answer.cells["cost of HTTP"] == "10.0%" and answer.cells["llama-server"] == "20.0%"
    assert answer.cells["CPU"] == "300 + 80" and answer.cells["latency"] == "0.50 / 0.50"
