"""How fast is a prompt of 512 tokens computed?"""

import statistics
from collections.abc import Iterator, Sequence

from benchmarks.answer import Answer, speed_answer
from benchmarks.case import BenchModel, Case
from benchmarks.machine import has_amx
from benchmarks.race import Race

TITLE = "Prefill: a prompt of 512 tokens"
NOTE = "Tokens per second, median (least..most)."


def ask(models: Sequence[BenchModel], threads: Sequence[int], race: Race) -> Iterator[Answer]:
    for model in models:
        for n_threads in threads:
            goal = 1.5 if model.small else 2.0 if has_amx() else 2.5
            case = Case(model, n_threads, n_prompt=512, goal=goal)
            samples = race.run(case)
            macs = statistics.median(samples.beside["macs_per_s"])
            yield speed_answer(case, samples, {"GMAC/s": f"{macs / 1e9:.0f}"})
