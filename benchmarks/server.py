"""How late do tokens reach a client of the server, what do they cost, and what do large bodies of others cost them?"""

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.answer import Answer
from benchmarks.case import BenchModel, Case
from benchmarks.http_server import Setting
from benchmarks.race import Race
from benchmarks.streams import N_PIECE

TITLE = "A stream over HTTP"
NOTE = (
    "Milliseconds, median and 99th percentile. Latency: from the engine's hand-over of a token to its arrival at the "
    "client. Gap: between two arrivals, alone, and while another client sends bodies of 1 MB that are parsed or "
    f"tokenised. Cost of HTTP: of answers of {N_PIECE} tokens, which the same engine computes with nobody to tell and "
    "then streams, in turn, how much longer a streamed token takes; the median of all pairs. CPU: µs that the server's "
    "event loop and the client compute for a token; the client is a socket in Python that looks for lines of data. "
    "llama-server: its streams to the same client against llama-bench."
)
N_GEN, QUICK_N_GEN = 512, 64
CPU = ("server", "client")
GOAL = "latency under 2 ms, cost under 3 %"


def ask(models: Sequence[BenchModel], threads: Sequence[int], race: Race) -> Iterator[Answer]:
    n_gen = QUICK_N_GEN if race.quick else N_GEN
    for model in models:
        for n_threads in threads:
            streams, peers = [], []
            for _ in range(race.n_rounds):
                command = [sys.executable, "-m", "benchmarks.streams", str(model.path), str(n_gen), str(n_threads)]
                streams.append(json.loads(race.output(command)))
                if race.peer:
                    peers.append(_peer(race, model, n_threads, n_gen // N_PIECE))
            cells = {
                "model": model.label,
                "threads": str(n_threads),
                "latency": _both(_all(streams, "alone", "latency_ms")),
                "gap alone": _both(_all(streams, "alone", "gap_ms")),
                "gap, parsing": _both(_all(streams, "parsed", "gap_ms")),
                "gap, tokenising": _both(_all(streams, "tokenised", "gap_ms")),
                "CPU": " + ".join(f"{statistics.median(_all(streams, 'cpu_us', who)):.0f}" for who in CPU),
                "cost of HTTP": f"{_cost([pair for s in streams for pair in s['pairs']]):.1%}",
                "llama-server": f"{_cost([pair for p in peers for pair in p]):.1%}" if peers else "not measured",
                "goal": GOAL,
            }
            measured = {"model": model.label, "threads": n_threads, "streams": streams, "peer": peers}
            yield Answer(cells, measured)


def _peer(race: Race, model: BenchModel, n_threads: int, n_pieces: int) -> list[tuple[float, float]]:
    """Pairs of ms from token to token: of llama-bench, and of a stream of llama-server."""
    case = Case(model, n_threads, n_gen=N_PIECE)
    (bench,) = json.loads(race.output(race.peers(case)))
    server = Setting(model.path, 4096, 1, n_threads).peers(race)
    command = [sys.executable, "-m", "benchmarks.peer_stream", str(N_PIECE), str(n_pieces), *server]
    alone = 1000 / statistics.median(bench["samples_ts"])
    return [(alone, ms) for ms in json.loads(race.output(command))]


def _cost(pairs: Sequence[tuple[float, float]]) -> float:
    """Of a token's time over HTTP, the share that it would not take without."""
    return statistics.median(1 - alone / streamed for alone, streamed in pairs)


def _all(streams: Sequence[dict[str, Any]], name: str, what: str) -> list[float]:
    return [value for s in streams for value in s[name][what]]


def _both(ms: Sequence[float]) -> str:
    return f"{statistics.median(ms):.2f} / {statistics.quantiles(ms, n=100)[98]:.2f}"
