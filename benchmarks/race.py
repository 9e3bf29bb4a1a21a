"""Running both contestants in turn: A B A B, each time as a process of its own, so that both see the same minutes."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.case import Case, Samples

_BESIDE = ("read_bytes_per_s", "plain_read_bytes_per_s", "macs_per_s")


@dataclass(frozen=True)
class Race:
    """How to run.

    peer          folder of llama.cpp's programs; None: the peer is left out
    n_rounds      times that both run in turn
    n_repetitions of a test in each run, after its warm-up
    wrap          a command that runs its arguments, such as one that waits until the machine is quiet
    quick         small sizes, to see that everything runs
    """

    peer: Path | None
    n_rounds: int = 3
    n_repetitions: int = 2
    wrap: Sequence[str] = ()
    quick: bool = False

    def run(self, case: Case) -> Samples:
        samples = Samples()
        for _ in range(self.n_rounds):
            ours = self._result(self.ours(case), case.beside_busy)
            samples.ours += ours["samples_ts"]
            for key in _BESIDE:
                if ours[key] is not None:
                    samples.beside.setdefault(key, []).append(ours[key])
            if self.peer:
                samples.peer += self._result(self.peers(case), case.beside_busy)["samples_ts"]
        return samples

    def ours(self, case: Case) -> list[str]:
        command = [sys.executable, "-m", "chenxing", "bench", str(case.model.path)]
        return [*command, *case.flags, "-r", str(self.n_repetitions), "-o", "json"]

    def peers(self, case: Case) -> list[str]:
        command = [self.program("llama-bench"), "-m", str(case.model.path), "-fa", "1"]
        return [*command, *case.flags, "-r", str(self.n_repetitions), "-o", "json"]

    def program(self, name: str) -> str:
        """Path of one of the peer's programs."""
        assert self.peer
        return str(self.peer / name)

    def seconds(self, command: Sequence[str]) -> float:
        """Wall time of a whole process, started when `wrap` lets it."""
        timed = [sys.executable, "-m", "benchmarks.timed", *command]
        return float(self.output(timed))

    def output(self, command: Sequence[str]) -> str:
        """What a command prints. Raises CalledProcessError if it fails."""
        return subprocess.run([*self.wrap, *command], check=True, text=True, stdout=subprocess.PIPE).stdout

    def _result(self, command: Sequence[str], beside_busy: bool) -> dict[str, Any]:
        busy = [sys.executable, "-m", "benchmarks.beside_busy"] if beside_busy else []
        (result,) = json.loads(self.output([*busy, *command]))
        return result


def missing(peer: Path | None) -> str | None:
    """Why there is no peer to race, or None."""
    if peer is None:
        return "no peer: --peer or CHENXING_PEER names the folder of llama.cpp's programs"
    if not (peer / "llama-bench").is_file() and not (peer / "llama-bench.exe").is_file():
        return f"no peer: {peer} holds no llama-bench"
    return None


def now() -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
