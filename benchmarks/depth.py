"""How fast are prompts and single tokens when much stands before them?"""

from collections.abc import Iterator, Sequence

from benchmarks.answer import Answer, speed_answer
from benchmarks.case import BenchModel, Case
from benchmarks.race import Race

TITLE = "At depth"
NOTE = "Tokens per second after 4,096 and 8,192 tokens; flash attention on at the peer."


def ask(models: Sequence[BenchModel], threads: Sequence[int], race: Race) -> Iterator[Answer]:
    for model in models:
        if model.label not in ("synthetic 1B Q4_K_M", "SmolLM2-135M Q4_1"):
            continue
        for n_depth in (4096, 8192):
            prompt = Case(model, max(threads), n_prompt=512, n_depth=n_depth, goal=2.0)
            single = Case(model, max(threads), n_gen=32, n_depth=n_depth, goal=5.0)
            for case in (prompt, single):
                yield speed_answer(case, race.run(case))
