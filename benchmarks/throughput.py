"""How many tokens per second do many answers get together?

python -m benchmarks.throughput VOCAB IN OUT REPETITIONS SERVER ... starts that server and prints, for each repetition,
tokens/s of all answers together and ms to the first and between tokens.
"""

import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from benchmarks.answer import Answer
from benchmarks.case import BenchModel
from benchmarks.http_server import (
    Run,
    Server,
    Setting,
    median,
    p95,
    race_servers,
    random_ids,
    side_by_side,
    token_times,
)
from benchmarks.race import Race
from chenxing.gguf import open_gguf
from chenxing.models.model import read_model

N_STREAMS, N_PROMPT, N_GEN = 8, 256, 128
QUICK_PROMPT, QUICK_GEN = 32, 8
TITLE = f"Throughput: {N_STREAMS} answers at once"
NOTE = (
    f"Tokens per second of all answers together, from the requests to the last token: {N_STREAMS} prompts of "
    f"{N_PROMPT} tokens come at the same moment, each is answered with {N_GEN}. Over HTTP from both servers, with "
    f"{N_STREAMS} slots. First: ms until the median stream has its first token; next: ms between tokens, 95th "
    "percentile."
)
GOALS = {"SmolLM2-135M Q4_1": 3.0, "synthetic 1B Q4_K_M": 1.6}


def ask(models: Sequence[BenchModel], threads: Sequence[int], race: Race) -> Iterator[Answer]:
    n_prompt, n_gen = (QUICK_PROMPT, QUICK_GEN) if race.quick else (N_PROMPT, N_GEN)
    for model in models:
        if model.label not in GOALS:
            continue
        setting = Setting(model.path, N_STREAMS * 2 * (n_prompt + n_gen), N_STREAMS, max(threads))
        sizes = (read_model(open_gguf(model.path)).n_vocab, n_prompt, n_gen)
        ours, peers = race_servers(race, "benchmarks.throughput", setting, sizes)
        yield Answer(_cells(model, max(threads), ours, peers), {"model": model.label, "ours": ours, "peer": peers})


def _cells(model: BenchModel, n_threads: int, ours: Sequence[Run], peers: Sequence[Run]) -> dict[str, str]:
    ratio = f"{median(ours, 'total_ts') / median(peers, 'total_ts'):.2f} x" if peers else ""
    return {
        "model": model.label,
        "threads": str(n_threads),
        "chenxing": _rate(ours),
        "llama-server": _rate(peers),
        "ratio": ratio,
        "goal": f"{GOALS[model.label]:.2f} x",
        "first": side_by_side(ours, peers, "first_ms", 0),
        "next": side_by_side(ours, peers, "gap_p95_ms", 0),
    }


def _rate(runs: Sequence[Run]) -> str:
    rates = [run["total_ts"] for run in runs]
    return f"{statistics.median(rates):.1f} ({min(rates):.1f}..{max(rates):.1f})" if runs else "not measured"


def _measure(n_vocab: int, n_prompt: int, n_gen: int, n_repetitions: int, command: list[str]) -> list[Run]:
    rng = np.random.default_rng(1)
    with Server(command) as server:
        _together(server, [random_ids(n_prompt, n_vocab, rng) for _ in range(N_STREAMS)], min(n_gen, 8))
        return [
            _together(server, [random_ids(n_prompt, n_vocab, rng) for _ in range(N_STREAMS)], n_gen)
            for _ in range(n_repetitions)
        ]


def _together(server: Server, prompts: Sequence[list[int]], n_gen: int) -> Run:
    """Figures of one run."""
    start = time.perf_counter()
    with ThreadPoolExecutor(len(prompts)) as pool:
        streams = list(pool.map(lambda ids: server.stream(ids, n_gen, lambda events: True), prompts))
    n_tokens = sum(events[-1][1]["tokens_predicted"] for events in streams)
    if n_tokens != n_gen * len(prompts):
        raise SystemExit(f"expected {n_gen} tokens from each of {len(prompts)} answers, got {n_tokens} in all")
    times = [token_times(events) for events in streams]
    return {
        "total_ts": n_tokens / (max(events[-1][0] for events in streams) - start),
        "first_ms": 1000 * statistics.median(stream[0] - start for stream in times),
        "gap_p95_ms": 1000 * p95([b - a for stream in times for a, b in pairwise(stream)]),
    }


if __name__ == "__main__":
    print(json.dumps(_measure(*(int(word) for word in sys.argv[1:5]), sys.argv[5:])))
