"""Seconds to llama-server's first token after a restart of it.

python -m benchmarks.peer_first_token SERVER MODEL PREFIX VOCAB THREADS FOLDER ROUNDS

Prints JSON with a list of {"seconds", "n_cached"} for each of
    cold      the first request to a new server
    ram       the same prefix after a restart, with the RAM cache that is on by default
    restored  the same, after `POST /slots/0?action=restore` of what `action=save` had written to FOLDER; the seconds
              are those of both requests
Source  llama.cpp tools/server/README.md: --slot-save-path, POST /slots/{id_slot}, POST /completion
"""

import json
import sys
import time
from pathlib import Path

from benchmarks.http_server import Server
from benchmarks.prompts import N_QUESTION, prompt

_FILE = "prefix.bin"


def first_token(server: Server, ids: list[int], *, restore: bool = False) -> dict[str, float]:
    start = time.perf_counter()
    if restore:
        server.post("/slots/0?action=restore", {"filename": _FILE})
    answer = server.post("/completion", {"prompt": ids, "n_predict": 1, "id_slot": 0, "temperature": 0})
    return {"seconds": time.perf_counter() - start, "n_cached": answer["timings"]["cache_n"]}


def main(
    program: str, model: str, n_prefix: int, n_vocab: int, n_threads: int, folder: Path, n_rounds: int
) -> dict[str, list[dict[str, float]]]:
    def server() -> Server:
        flags = ["-c", str(n_prefix + 2 * N_QUESTION), "-t", str(n_threads), "-np", "1", "-fa", "on"]
        return Server([program, "-m", model, *flags, "--slot-save-path", str(folder)])

    found: dict[str, list[dict[str, float]]] = {"cold": [], "ram": [], "restored": []}
    with server() as first:
        found["cold"].append(first_token(first, prompt(n_prefix, n_vocab, 0)))
        first.post("/slots/0?action=save", {"filename": _FILE})
    with server() as second:
        found["ram"].append(first_token(second, prompt(n_prefix, n_vocab, 1)))
    for i in range(n_rounds):
        with server() as third:
            found["restored"].append(first_token(third, prompt(n_prefix, n_vocab, 2 + i), restore=True))
    return found


if __name__ == "__main__":
    _, program, model, n_prefix, n_vocab, n_threads, folder, n_rounds = sys.argv
    found = main(program, model, int(n_prefix), int(n_vocab), int(n_threads), Path(folder), int(n_rounds))
    print(json.dumps(found))
