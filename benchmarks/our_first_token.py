"""Seconds to our first token, in a new process.

python -m benchmarks.our_first_token MODEL PREFIX THREADS FOLDER QUESTION

Prints JSON: seconds from the request to the first token's logits, tokens reused, of these from disk, and seconds that
the model took to load. What is computed stays in FOLDER for the next process.
"""

import json
import sys
import time
from pathlib import Path

from benchmarks.our_engine import open_engine
from benchmarks.prompts import N_QUESTION, prompt


def main(model: str, n_prefix: int, n_threads: int, folder: Path, question: int) -> dict[str, float]:
    start = time.perf_counter()
    engine = open_engine(model, n_prefix + N_QUESTION + 1, n_threads, folder)
    load_s = time.perf_counter() - start
    ids = prompt(n_prefix, engine.hp.n_vocab, question)
    start = time.perf_counter()
    n_cached, logits = engine.prompt(ids)
    logits.argmax()
    seconds = time.perf_counter() - start
    found = {"seconds": seconds, "n_cached": n_cached, "n_from_disk": engine.n_from_disk, "load_s": load_s}
    engine.close()
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]))))
