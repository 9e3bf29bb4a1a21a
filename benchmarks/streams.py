"""A stream of tokens over HTTP: beside the same engine without it, and beside a client that sends megabytes.

python -m benchmarks.streams MODEL N THREADS prints JSON. `pairs`: ms from token to token of a piece of the answer that
is not sent before its end, and of the same piece as a stream, in turn. `cpu_us`: what the event loop's thread and the
client computed for each token. Of each kind of stream, the milliseconds from the engine's hand-over of a token to its
arrival at the client, and those between arrivals.
"""

import contextlib
import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from benchmarks.plain_client import WORDS, Arrivals, mean_ms, stream

MEGABYTE = 1 << 20
N_PIECE = 64  # tokens: short enough that both of a pair see the same second of the machine
PAUSE = 0.05  # seconds between two bodies
# the first is only parsed, since what it asks for is refused; the second's text becomes tokens
PARSED = (
    "/completion",
    {"prompt": "a", "n": 0, "unknown": [{"a": i, "b": [None, "text"]} for i in range(MEGABYTE // 32)]},
)
TOKENISED = ("/tokenize", {"content": WORDS * (MEGABYTE // len(WORDS))})


class OurServer:
    """benchmarks.our_server in its process."""

    def __init__(self, model: str, n_threads: int) -> None:
        command = [sys.executable, "-m", "benchmarks.our_server", model, str(n_threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin and self._process.stdout
        self._say, self._hear = self._process.stdin, self._process.stdout
        self.port = int(self._hear.readline())

    def stream(self, n_gen: int, how: str) -> tuple[Arrivals, dict[str, Any]]:
        """What came, and what the server says of it. how: told or alone."""
        self._next(how)
        arrived = stream(self.port, n_gen)
        return arrived, self._next("told")

    def close(self) -> None:
        self._process.communicate()

    def _next(self, how: str) -> dict[str, Any]:
        print(how, file=self._say, flush=True)
        found: dict[str, Any] = json.loads(self._hear.readline())
        return found


def main(model: str, n_gen: int, n_threads: int) -> dict[str, Any]:
    server = OurServer(model, n_threads)
    server.stream(16, "told")
    n_piece = min(N_PIECE, n_gen)
    pairs, loop_us, client_us, pieces = [], [], [], []
    for _ in range(n_gen // n_piece):
        alone = mean_ms(server.stream(n_piece, "alone")[1]["times"])
        arrived, given = server.stream(n_piece, "told")
        pairs.append((alone, arrived.ms))
        loop_us.append(1e6 * given["loop_s"] / n_piece)
        client_us.append(1e6 * arrived.cpu_s / n_piece)
        pieces.append(_compared(arrived, given))
    found: dict[str, Any] = {"pairs": pairs, "cpu_us": {"server": loop_us, "client": client_us}}
    found["alone"] = {name: [ms for piece in pieces for ms in piece[name]] for name in pieces[0]}
    for name, (path, body) in (("parsed", PARSED), ("tokenised", TOKENISED)):
        with sending(server.port, path, json.dumps(body).encode()):
            found[name] = _compared(*server.stream(n_gen, "told"))
    server.close()
    return found


def _compared(arrived: Arrivals, given: dict[str, Any]) -> dict[str, list[float]]:
    latency = [1000 * (b - a) for a, b in zip(given["times"], arrived.times, strict=True)]
    return {"latency_ms": latency, "gap_ms": [1000 * (b - a) for a, b in pairwise(arrived.times)]}


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
