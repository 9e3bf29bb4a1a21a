"""Do drafts from n-grams pay where a text repeats itself, and what do they cost where it does not?"""

import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from benchmarks.answer import Answer
from benchmarks.case import BenchModel
from benchmarks.race import Race

TITLE = "Speculative decoding from n-grams"
NOTE = (
    "Tokens per second of answers of 256 tokens, without and with drafts, in turn in one process; the answers are the "
    "same. A code edit repeats a file with a change (greedy), prose is sampled at temperature 0.8."
)
N_TOKENS, QUICK_N_TOKENS = 256, 64
GOALS = {"code edit": 1.5, "prose": 0.97}


def ask(models: Sequence[BenchModel], threads: Sequence[int], race: Race) -> Iterator[Answer]:
    """Of real models alone: what the others write is noise."""
    n_tokens = QUICK_N_TOKENS if race.quick else N_TOKENS
    for model in (m for m in models if m.small):
        for n_threads in threads:
            words = [str(model.path), str(n_threads), str(n_tokens), str(race.n_rounds * race.n_repetitions)]
            found = json.loads(race.output([sys.executable, "-m", "benchmarks.our_speculation", *words]))
            for kind, rates in found.items():
                plain, drafted = (statistics.median(rates[name]) for name in ("plain", "drafted"))
                cells = {
                    "model": model.label,
                    "threads": str(n_threads),
                    "text": kind,
                    "plain": f"{plain:.1f}",
                    "with drafts": f"{drafted:.1f}",
                    "ratio": f"{drafted / plain:.2f} x",
                    "goal": f"{GOALS[kind]:.2f} x",
                    "accepted": f"{rates['n_accepted']} of {rates['n_drafted']}",
                }
                yield Answer(cells, {"model": asdict(model), "n_threads": n_threads, "text": kind, **rates})
