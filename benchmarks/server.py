"""How late do tokens reach a client of the server, and what do large bodies of others cost it?"""

import json
import statistics
import sys
from collections.abc import Iterator, Sequence

from benchmarks.answer import Answer
from benchmarks.case import BenchModel
from benchmarks.race import Race

TITLE = "A stream over HTTP"
NOTE = (
    "Milliseconds, median and 99th percentile. Latency: from the engine's hand-over of a token to its arrival at the "
    "client. Gap: between two arrivals, alone, and while another client sends bodies of 1 MB that are parsed or "
    "tokenised. Cost of HTTP: the stream's tokens per second against the engine's without a server."
)
N_GEN, QUICK_N_GEN = 512, 64
GOAL = "latency under 2 ms, cost under 3 %"


def ask(models: Sequence[BenchModel], threads: Sequence[int], race: Race) -> Iterator[Answer]:
    n_gen = str(QUICK_N_GEN if race.quick else N_GEN)
    for model in models:
        for n_threads in threads:
            streams, bare = [], []
            for _ in range(race.n_rounds):
                command = [str(model.path), n_gen, str(n_threads)]
                streams.append(json.loads(race.output([sys.executable, "-m", "benchmarks.streams", *command])))
                bare.append(float(race.output([sys.executable, "-m", "benchmarks.persistence", *command])))
            gaps = {name: _both([ms for s in streams for ms in s[name]["gap_ms"]]) for name in streams[0]}
            rate = 1000 / statistics.median(statistics.mean(s["alone"]["gap_ms"]) for s in streams)
            cells = {
                "model": model.label,
                "threads": str(n_threads),
                "latency": _both([ms for s in streams for ms in s["alone"]["latency_ms"]]),
                "gap alone": gaps["alone"],
                "gap, parsing": gaps["parsed"],
                "gap, tokenising": gaps["tokenised"],
                "cost of HTTP": f"{1 - rate / statistics.median(bare):.1%}",
                "goal": GOAL,
            }
            yield Answer(cells, {"model": model.label, "threads": n_threads, "streams": streams, "bare": bare})


def _both(ms: Sequence[float]) -> str:
    return f"{statistics.median(ms):.2f} / {statistics.quantiles(ms, n=100)[98]:.2f}"
