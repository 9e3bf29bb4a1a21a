"""How long do running answers wait for their next token while a long prompt is computed?

python -m benchmarks.stall VOCAB PROMPT REPETITIONS SERVER ... starts that server and prints, for each repetition, ms
between tokens of the running answers while the prompt is computed, and the seconds that it takes.
"""

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from benchmarks.answer import Answer
from benchmarks.case import BenchModel
from benchmarks.http_server import (
    Event,
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

N_STREAMS, N_PROMPT, QUICK_PROMPT = 4, 4096, 256
_N_BEFORE = 8  # tokens that every stream has had when the prompt comes
_SHORT = 16  # tokens of the streams' own prompts
TITLE = "A long prompt beside running answers"
NOTE = (
    f"Milliseconds between tokens of {N_STREAMS} running answers while a prompt of {N_PROMPT} tokens is computed: the "
    "95th percentile, and in brackets the longest. Over HTTP from both servers. Prompt: seconds until its first token."
)
GOAL = 1 / 3
_LABELS = ("SmolLM2-135M Q4_1", "synthetic 1B Q4_K_M")


def ask(models: Sequence[BenchModel], threads: Sequence[int], race: Race) -> Iterator[Answer]:
    n_prompt = QUICK_PROMPT if race.quick else N_PROMPT
    n_slots = N_STREAMS + 1
    for model in models:
        if model.label not in _LABELS:
            continue
        setting = Setting(model.path, n_slots * (n_prompt + 256), n_slots, max(threads))
        sizes = (read_model(open_gguf(model.path)).n_vocab, n_prompt)
        ours, peers = race_servers(race, "benchmarks.stall", setting, sizes)
        yield Answer(_cells(model, max(threads), ours, peers), {"model": model.label, "ours": ours, "peer": peers})


def _cells(model: BenchModel, n_threads: int, ours: Sequence[Run], peers: Sequence[Run]) -> dict[str, str]:
    ratio = f"{median(ours, 'gap_p95_ms') / median(peers, 'gap_p95_ms'):.2f} x" if peers else ""
    return {
        "model": model.label,
        "threads": str(n_threads),
        "chenxing": _gaps(ours),
        "llama-server": _gaps(peers),
        "ratio": ratio,
        "goal": f"under {GOAL:.2f} x",
        "prompt": side_by_side(ours, peers, "prompt_s", 1),
    }


def _gaps(runs: Sequence[Run]) -> str:
    if not runs:
        return "not measured"
    return f"{median(runs, 'gap_p95_ms'):.0f} ({max(run['gap_max_ms'] for run in runs):.0f})"


def _measure(n_vocab: int, n_prompt: int, n_repetitions: int, command: list[str]) -> list[Run]:
    rng = np.random.default_rng(1)
    with Server(command) as server:
        server.stream(random_ids(_SHORT, n_vocab, rng), 1, lambda events: True)
        return [_stalled(server, n_vocab, n_prompt, rng) for _ in range(n_repetitions)]


def _stalled(server: Server, n_vocab: int, n_prompt: int, rng: np.random.Generator) -> Run:
    """Figures of one run: the streams begin, the prompt comes, and when it is done the streams are left."""
    is_over = threading.Event()
    has_begun = [threading.Event() for _ in range(N_STREAMS)]

    def one(i: int, ids: list[int]) -> list[Event]:
        def wants_more(events: list[Event]) -> bool:
            if len(events) >= _N_BEFORE:
                has_begun[i].set()
            return not is_over.is_set()

        events = server.stream(ids, n_prompt, wants_more)
        has_begun[i].set()
        return events

    with ThreadPoolExecutor(N_STREAMS) as pool:
        futures = [pool.submit(one, i, random_ids(_SHORT, n_vocab, rng)) for i in range(N_STREAMS)]
        for begun in has_begun:
            begun.wait()
        sent = time.perf_counter()
        done = server.stream(random_ids(n_prompt, n_vocab, rng), 1, lambda events: True)[0][0]
        is_over.set()
        streams = [future.result() for future in futures]
    if any(events[-1][0] < done for events in streams):
        raise SystemExit("an answer ended before the prompt was computed: nothing was measured")
    times = [token_times(events) for events in streams]
    gaps = [1000 * (b - a) for stream in times for a, b in pairwise(stream) if b > sent and a < done]
    return {"gap_p95_ms": p95(gaps), "gap_max_ms": max(gaps), "prompt_s": done - sent}


if __name__ == "__main__":
    print(json.dumps(_measure(*(int(word) for word in sys.argv[1:4]), sys.argv[4:])))
