"""A server under measurement, ours or llama-server, and a plain client for both: same flags, same requests.

Source  llama.cpp tools/server/README.md: POST /completion, its stream of events
"""

import http.client
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.race import Race

_START_S = 300
Run = dict[str, float]  # figures of one repetition
Event = tuple[float, dict[str, Any]]  # seconds of perf_counter when it came, and what it says


@dataclass(frozen=True)
class Setting:
    """What both servers are started with. n_ctx: of all slots together."""

    model: Path
    n_ctx: int
    n_slots: int
    n_threads: int

    @property
    def ours(self) -> list[str]:
        """The command, without the port."""
        return [sys.executable, "-m", "chenxing", "serve", *self._flags, "--no-disk-cache"]

    def peers(self, race: Race) -> list[str]:
        return [race.program("llama-server"), *self._flags, "-fa", "on"]

    @property
    def _flags(self) -> list[str]:
        counts = {"-c": self.n_ctx, "-np": self.n_slots, "-t": self.n_threads}
        return ["-m", str(self.model), *(word for flag, n in counts.items() for word in (flag, str(n)))]


def race_servers(race: Race, module: str, setting: Setting, sizes: Sequence[int]) -> tuple[list[Run], list[Run]]:
    """What `python -m MODULE SIZES ... REPETITIONS SERVER ...` prints of our server and of the peer's, in turn."""
    command = [sys.executable, "-m", module, *(str(n) for n in (*sizes, race.n_repetitions))]
    ours: list[Run] = []
    peers: list[Run] = []
    for _ in range(race.n_rounds):
        ours += json.loads(race.output([*command, *setting.ours]))
        if race.peer:
            peers += json.loads(race.output([*command, *setting.peers(race)]))
    return ours, peers


def median(runs: Sequence[Run], key: str) -> float:
    return statistics.median(run[key] for run in runs)


def side_by_side(ours: Sequence[Run], peers: Sequence[Run], key: str, digits: int) -> str:
    """Our median and the peer's, if there is one."""
    return " : ".join(f"{median(runs, key):.{digits}f}" for runs in (ours, peers) if runs)


class Server:
    """A server that this process has started. Use as a context manager; leaving it kills the process.

    command  without the port, which is a free one. Raises SystemExit if it does not come up.
    """

    def __init__(self, command: Sequence[str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._name = " ".join(command)
        command = [*command, "--port", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self) -> "Server":
        end = time.monotonic() + _START_S
        while time.monotonic() < end and self._process.poll() is None:
            try:
                if self._ask("GET", "/health", None).status == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.05)
        self.__exit__()
        raise SystemExit(f"did not start: {self._name}")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The answer's JSON. Raises SystemExit if it is an error."""
        found: dict[str, Any] = json.load(self._checked(path, body))
        return found

    def stream(self, ids: Sequence[int], n_gen: int, wants_more: Callable[[list[Event]], bool]) -> list[Event]:
        """The events of a greedy answer of n_gen tokens, until it ends or nobody wants more of it."""
        sampling = {"temperature": 0, "ignore_eos": True, "cache_prompt": False}
        body = {"prompt": list(ids), "n_predict": n_gen, "stream": True, **sampling}
        answer = self._checked("/completion", body)
        events: list[Event] = []
        with answer:
            while line := answer.readline():
                if line.startswith(b"data: "):
                    events.append((time.perf_counter(), json.loads(line[6:])))
                    if not wants_more(events):
                        break
        return events

    def _checked(self, path: str, body: dict[str, Any]) -> http.client.HTTPResponse:
        answer = self._ask("POST", path, json.dumps(body).encode())
        if answer.status != 200:
            raise SystemExit(f"{self._name}: {path} answered {answer.status}: {answer.read().decode()}")
        return answer

    def _ask(self, method: str, path: str, data: bytes | None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request(method, path, data, {"Content-Type": "application/json", "Connection": "close"})
        return connection.getresponse()


def token_times(events: Sequence[Event]) -> list[float]:
    """When each token came: those of one event together."""
    return [at for at, event in events for _ in event.get("tokens", ()) if not event["stop"]]


def random_ids(n: int, n_vocab: int, rng: np.random.Generator) -> list[int]:
    """Token ids of which no cache knows anything. Special tokens, at the ends of vocabularies, are left out."""
    return rng.integers(n_vocab // 4, n_vocab // 2, n).tolist()


def p95(values: Sequence[float]) -> float:
    """What 95 % of the values do not exceed."""
    return sorted(values)[int(0.95 * (len(values) - 1))]
