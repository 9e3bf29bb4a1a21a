"""What does it cost a stream of tokens that its KV goes to disk?

python -m benchmarks.persistence MODEL N THREADS [FOLDER] prints the tokens per second of one of the two.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.answer import Answer
from benchmarks.case import BenchModel
from benchmarks.our_engine import open_engine
from benchmarks.race import Race

TITLE = "Decode while KV goes to disk"
NOTE = "Tokens per second of a stream from an empty context, with the disk's cache and without, in turn."
N_GEN, QUICK_N_GEN = 1024, 64
GOAL = "2 %"


def ask(models: Sequence[BenchModel], threads: Sequence[int], race: Race) -> Iterator[Answer]:
    n_gen = QUICK_N_GEN if race.quick else N_GEN
    for model in models:
        for n_threads in threads:
            command = [sys.executable, "-m", "benchmarks.persistence", str(model.path), str(n_gen), str(n_threads)]
            disk, memory = [], []
            for _ in range(max(2, race.n_rounds)):
                with tempfile.TemporaryDirectory() as folder:
                    disk.append(float(race.output([*command, folder])))
                memory.append(float(race.output(command)))
            cost = 1 - statistics.median(disk) / statistics.median(memory)
            cells = {
                "model": model.label,
                "threads": str(n_threads),
                "disk": _rate(disk),
                "memory only": _rate(memory),
                "cost": f"{cost:.1%}",
                "goal": f"under {GOAL}",
            }
            yield Answer(cells, {"model": model.label, "threads": n_threads, "disk": disk, "memory": memory})


def _rate(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f}..{max(values):.1f})"


def _stream(model: str, n_gen: int, n_threads: int, folder: Path | None) -> float:
    """Tokens per second of our engine."""
    engine = open_engine(model, n_gen + 1, n_threads, folder)
    token = int(engine.prompt([engine.hp.n_vocab // 3])[1].argmax())
    start = time.perf_counter()
    for _ in range(n_gen - 1):
        token = int(engine.append(token).argmax())
    rate = (n_gen - 1) / (time.perf_counter() - start)
    engine.close()
    return rate


if __name__ == "__main__":
    print(_stream(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]) if sys.argv[4:] else None))
