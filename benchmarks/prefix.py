"""How long does the first token take after a restart, when the prompt's prefix was computed before it?"""

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.answer import Answer
from benchmarks.case import BenchModel
from benchmarks.prompts import N_QUESTION
from benchmarks.race import Race
from chenxing.gguf import open_gguf
from chenxing.models.model import read_model

TITLE = "First token after a restart"
NOTE = (
    f"Seconds from a request to its first token: a prefix that was computed before the restart and {N_QUESTION} new "
    "tokens; files are in the page cache. Beside each the tokens that were reused. Cold: nothing is known. "
    "llama-server's RAM cache is on; restored: a slot was saved by hand before the restart and restored by hand after "
    "it, both requests counted."
)
LENGTHS, QUICK_LENGTHS = (4096, 16384), (256,)


def ask(models: Sequence[BenchModel], threads: Sequence[int], race: Race) -> Iterator[Answer]:
    for model in models:
        for n_prefix in QUICK_LENGTHS if race.quick else LENGTHS:
            with tempfile.TemporaryDirectory() as folder:
                ours = _ours(model, n_prefix, max(threads), race, folder)
                peers = _peers(model, n_prefix, max(threads), race, folder) if race.peer else {}
            measured = {"model": model.label, "n_prefix": n_prefix, "ours": ours, "peer": peers}
            cold, warm = _median(ours["cold"]), _median(ours["warm"])
            cells = {
                "model": model.label,
                "prefix": str(n_prefix),
                "chenxing cold": _cell(ours["cold"]),
                "chenxing": _cell(ours["warm"]),
                "faster": f"{cold / warm:.0f} x",
                "llama-server cold": _cell(peers.get("cold", [])),
                "RAM cache": _cell(peers.get("ram", [])),
                "restored": _cell(peers.get("restored", [])),
            }
            yield Answer(cells, measured)


def _ours(model: BenchModel, n_prefix: int, n_threads: int, race: Race, folder: str) -> dict[str, list[dict[str, Any]]]:
    def run(question: int) -> dict[str, Any]:
        words = [str(model.path), str(n_prefix), str(n_threads), folder, str(question)]
        found: dict[str, Any] = json.loads(race.output([sys.executable, "-m", "benchmarks.our_first_token", *words]))
        return found

    return {"cold": [run(0)], "warm": [run(1 + i) for i in range(race.n_rounds)]}


def _peers(model: BenchModel, n_prefix: int, n_threads: int, race: Race, folder: str) -> dict[str, Any]:
    n_vocab = read_model(open_gguf(model.path)).n_vocab
    words = [race.program("llama-server"), str(model.path), str(n_prefix), str(n_vocab), str(n_threads), folder]
    command = [sys.executable, "-m", "benchmarks.peer_first_token", *words, str(race.n_rounds)]
    found: dict[str, Any] = json.loads(race.output(command))
    return found


def _median(runs: Sequence[dict[str, Any]]) -> float:
    return statistics.median(run["seconds"] for run in runs)


def _cell(runs: Sequence[dict[str, Any]]) -> str:
    return f"{_median(runs):.3f} ({min(run['n_cached'] for run in runs)})" if runs else "not measured"
