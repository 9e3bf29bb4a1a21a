"""How fast are tokens computed one by one, and how much of the memory's speed is that?"""

import statistics
from collections.abc import Iterator, Sequence

from benchmarks.answer import Answer, speed_answer
from benchmarks.case import BenchModel, Case
from benchmarks.race import Race

TITLE = "Decode: 128 tokens from an empty context"
NOTE = "Tokens per second. GB/s: what ours reads of weights and KV; plain read: the same threads over a plain buffer."


def ask(models: Sequence[BenchModel], threads: Sequence[int], race: Race) -> Iterator[Answer]:
    for model in models:
        for n_threads in threads:
            goal = {"SmolLM2-135M Q4_1": 2.0, "Gemma-3-270M Q4_K_M": 1.5}.get(model.label, 1.8)
            case = Case(model, n_threads, n_gen=128, goal=goal)
            samples = race.run(case)
            read = statistics.median(samples.beside["read_bytes_per_s"])
            plain = statistics.median(samples.beside["plain_read_bytes_per_s"])
            more = {"GB/s": f"{read / 1e9:.1f}", "plain read": f"{plain / 1e9:.1f}", "share": f"{read / plain:.0%}"}
            yield speed_answer(case, samples, more)
