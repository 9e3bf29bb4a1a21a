"""A stream of tokens over HTTP: alone, and beside a client that sends megabytes.

python -m benchmarks.streams MODEL N THREADS prints JSON: of each stream the milliseconds from the engine's hand-over of
a token to its arrival at the client, and the milliseconds between arrivals.
"""

import contextlib
import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

MEGABYTE = 1 << 20
PAUSE = 0.05  # seconds between two bodies
_WORDS = "the morning star rises in the east before the sun and fades when the day begins. "
# the first is only parsed, since what it asks for is refused; the second's text becomes tokens
PARSED = (
    "/completion",
    {"prompt": "a", "n": 0, "unknown": [{"a": i, "b": [None, "text"]} for i in range(MEGABYTE // 32)]},
)
TOKENISED = ("/tokenize", {"content": _WORDS * (MEGABYTE // len(_WORDS))})


def main(model: str, n_gen: int, n_threads: int) -> dict[str, dict[str, list[float]]]:
    command = [sys.executable, "-m", "benchmarks.our_server", model, str(n_threads)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout and server.stdin
    port = int(server.stdout.readline())
    arrivals = {"warm-up": stream(port, 16), "alone": stream(port, n_gen)}
    for name, (path, body) in (("parsed", PARSED), ("tokenised", TOKENISED)):
        with sending(port, path, json.dumps(body).encode()):
            arrivals[name] = stream(port, n_gen)
    times = json.loads(server.communicate()[0])
    assert len(times) == sum(map(len, arrivals.values()))
    found = {}
    for name, there in arrivals.items():
        given, times = times[: len(there)], times[len(there) :]
        latency = [1000 * (b - a) for a, b in zip(given, there, strict=True)]
        gaps = [1000 * (b - a) for a, b in pairwise(there)]
        found[name] = {"latency_ms": latency, "gap_ms": gaps}
    del found["warm-up"]
    return found


def stream(port: int, n_gen: int) -> list[float]:
    """When each of n_gen tokens arrived."""
    body: dict[str, Any] = {"prompt": _WORDS, "n_predict": n_gen, "ignore_eos": True, "stream": True, "temperature": 0}
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("POST", "/completion", json.dumps(body))
    response = connection.getresponse()
    arrived = []
    for line in response:
        now = time.perf_counter()
        if line.startswith(b"data: ") and not json.loads(line[6:])["stop"]:
            arrived.append(now)
    connection.close()
    return arrived


@contextlib.contextmanager
def sending(port: int, path: str, data: bytes) -> Iterator[None]:
    """Another client sends the same body again and again."""
    is_over = threading.Event()

    def send() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        while not is_over.wait(PAUSE):
            connection.request("POST", path, data)
            connection.getresponse().read()
        connection.close()

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
