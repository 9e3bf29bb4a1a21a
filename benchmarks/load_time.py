"""How long does a warm start take, from nothing to one token and the end of the process?"""

import statistics
import sys
from collections.abc import Iterator, Sequence

from benchmarks.answer import Answer
from benchmarks.case import BenchModel
from benchmarks.race import Race

TITLE = "Warm start"
NOTE = "Seconds of a whole process that loads the model, computes a token and ends; files are in the page cache."


def ask(models: Sequence[BenchModel], threads: Sequence[int], race: Race) -> Iterator[Answer]:
    for model in models:
        flags = ["-t", str(max(threads))]
        path = str(model.path)
        run = [sys.executable, "-m", "chenxing", "run", path, "a", "-n", "1", "-c", "512", "--raw", "--temp", "0"]
        race.seconds([*run, *flags])  # packs and compiles what a first start has to
        ours, peer = [], []
        for _ in range(race.n_rounds):
            ours.append(race.seconds([*run, *flags]))
            if race.peer:
                bench = [race.program("llama-bench"), "-m", path, "-p", "1", "-n", "0", "-r", "1", "--no-warmup"]
                peer.append(race.seconds([*bench, *flags]))
        cells = {"model": model.label, "chenxing": _seconds(ours), "llama.cpp": _seconds(peer)}
        yield Answer(cells, {"model": model.label, "ours": ours, "peer": peer})


def _seconds(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}..{max(values):.2f})" if values else "not measured"
