"""How long does it take to find a prompt's longest known prefix among N? python -m benchmarks.prefix_tree N"""

import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.answer import Answer
from benchmarks.case import BenchModel
from benchmarks.race import Race
from chenxing.kernels.layout import PAGE
from chenxing.kvcache import KVCache

TITLE = "Matching in a tree of prefixes"
NOTE = (
    "Microseconds per 1,000 tokens of a prompt: 2,000 tokens that all prefixes share, then 1,000 of its own; every "
    "fourth prompt is an edited one."
)
N_PREFIXES, QUICK_N_PREFIXES = 10_000, 200
N_SHARED, N_OWN, N_MATCHES = 2000, 1000, 1000
PAGE_BYTES = 64  # of KV there is none
GOAL = 50.0


def ask(models: Sequence[BenchModel], threads: Sequence[int], race: Race) -> Iterator[Answer]:
    n_prefixes = QUICK_N_PREFIXES if race.quick else N_PREFIXES
    found = json.loads(race.output([sys.executable, "-m", "benchmarks.prefix_tree", str(n_prefixes)]))
    cells = {
        "prefixes": str(n_prefixes),
        "median": f"{found['median_us']:.1f}",
        "99 of 100 within": f"{found['p99_us']:.1f}",
        "goal": f"{GOAL:.0f}",
    }
    yield Answer(cells, {"n_prefixes": n_prefixes, **found})


def _measure(n_prefixes: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    shared = rng.integers(0, 100_000, N_SHARED).tolist()
    prompts = [[*shared, *own] for own in rng.integers(0, 100_000, (n_prefixes, N_OWN)).tolist()]
    n_pages = (n_prefixes + 2) * -(-(N_SHARED + N_OWN) // PAGE)
    cache = KVCache(PAGE_BYTES, ram_bytes=n_pages * PAGE_BYTES, folder=None, fingerprint={}, disk_bytes=0)
    for ids in prompts:
        sequence = cache.begin(ids, len(ids))
        assert sequence.reserve(len(ids))
        sequence.commit(ids[sequence.n_cached :])
        sequence.release()
    times = []
    for i in rng.integers(0, n_prefixes, N_MATCHES).tolist():
        n_known = len(prompts[i]) if i % 4 else N_SHARED + N_OWN // 2
        ids = [*prompts[i][:n_known], *range(100_000, 100_000 + len(prompts[i]) - n_known), 0]
        start = time.perf_counter()
        n_found = cache.match(ids)
        times.append((time.perf_counter() - start) * 1e6 / (len(ids) / 1000))
        assert n_found == n_known
    return {"median_us": statistics.median(times), "p99_us": float(np.quantile(times, 0.99))}


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]))))
