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
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.prompts import N_QUESTION, prompt

_START_S = 300
_FILE = "prefix.bin"


class Server:
    """A llama-server with one slot. Use as a context manager; leaving it kills the process."""

    def __init__(self, program: str, model: str, n_ctx: int, n_threads: int, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._url = f"http://127.0.0.1:{port}"
        flags = ["-c", str(n_ctx), "-t", str(n_threads), "-np", "1", "-fa", "on", "--slot-save-path", str(folder)]
        command = [program, "-m", model, "--port", str(port), *flags]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self) -> "Server":
        end = time.monotonic() + _START_S
        while time.monotonic() < end and self._process.poll() is None:
            try:
                with urllib.request.urlopen(self._url + "/health"):
                    return self
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.05)
        self._process.kill()
        raise SystemExit("llama-server did not start")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def first_token(self, ids: list[int], *, restore: bool = False) -> dict[str, float]:
        start = time.perf_counter()
        if restore:
            self.post("/slots/0?action=restore", {"filename": _FILE})
        answer = self.post("/completion", {"prompt": ids, "n_predict": 1, "id_slot": 0, "temperature": 0})
        return {"seconds": time.perf_counter() - start, "n_cached": answer["timings"]["cache_n"]}


def main(
    program: str, model: str, n_prefix: int, n_vocab: int, n_threads: int, folder: Path, n_rounds: int
) -> dict[str, list[dict[str, float]]]:
    def server() -> Server:
        return Server(program, model, n_prefix + 2 * N_QUESTION, n_threads, folder)

    found: dict[str, list[dict[str, float]]] = {"cold": [], "ram": [], "restored": []}
    with server() as first:
        found["cold"].append(first.first_token(prompt(n_prefix, n_vocab, 0)))
        first.post("/slots/0?action=save", {"filename": _FILE})
    with server() as second:
        found["ram"].append(second.first_token(prompt(n_prefix, n_vocab, 1)))
    for i in range(n_rounds):
        with server() as third:
            found["restored"].append(third.first_token(prompt(n_prefix, n_vocab, 2 + i), restore=True))
    return found


if __name__ == "__main__":
    _, program, model, n_prefix, n_vocab, n_threads, folder, n_rounds = sys.argv
    found = main(program, model, int(n_prefix), int(n_vocab), int(n_threads), Path(folder), int(n_rounds))
    print(json.dumps(found))
