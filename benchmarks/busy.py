"""What is left of the speed when another process keeps one core busy?"""

import statistics
from collections.abc import Iterator, Sequence

from benchmarks.answer import Answer, speed_answer
from benchmarks.case import BenchModel, Case
from benchmarks.race import Race

TITLE = "Decode while another process keeps one core busy"
NOTE = "Tokens per second, as many threads as cores. Share: of our own speed on one core fewer, on a quiet machine."


def ask(models: Sequence[BenchModel], threads: Sequence[int], race: Race) -> Iterator[Answer]:
    n_threads = max(threads)
    for model in models:
        if model.label not in ("synthetic 1B Q4_K_M", "SmolLM2-135M Q4_1") or n_threads < 2:
            continue
        quiet = Race(None, race.n_rounds, race.n_repetitions, race.wrap).run(Case(model, n_threads - 1, n_gen=128))
        case = Case(model, n_threads, n_gen=128, goal=4.0, beside_busy=True)
        samples = race.run(case)
        share = statistics.median(samples.ours) / statistics.median(quiet.ours)
        yield speed_answer(case, samples, {"share": f"{share:.0%}"})
