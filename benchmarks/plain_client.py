"""The lightest client of a stream: a socket, and a look for lines of data. Its cost is a part of what is measured."""

import json
import socket
import time
from dataclasses import dataclass
from typing import Any

WORDS = "the morning star rises in the east before the sun and fades when the day begins. "


@dataclass(frozen=True)
class Arrivals:
    """times: seconds of perf_counter, one for each token. cpu_s: that this thread computed from the first one on."""

    times: list[float]
    cpu_s: float

    @property
    def ms(self) -> float:
        """From token to token."""
        return mean_ms(self.times)


def mean_ms(times: list[float]) -> float:
    """From one to the next."""
    return 1000 * (times[-1] - times[0]) / (len(times) - 1)


def stream(port: int, n_gen: int) -> Arrivals:
    """A greedy answer of n_gen tokens from llama-server's /completion, or ours."""
    body: dict[str, Any] = {"prompt": WORDS, "n_predict": n_gen, "ignore_eos": True, "stream": True, "temperature": 0}
    data = json.dumps(body).encode()
    head = f"POST /completion HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    times: list[float] = []
    since = 0.0
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(head.encode() + data)
        while received := s.recv(1 << 16):
            now = time.perf_counter()
            since = since or time.thread_time()
            times += [now] * received.count(b"data: ")
    return Arrivals(times[:n_gen], time.thread_time() - since)  # behind the tokens is one event more
