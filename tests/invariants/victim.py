"""What a process does that is going to be killed: a fixed load on a cache, and files that kill at a given point."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from kvcache.pattern import PAGE_BYTES, compute

from chenxing.kernels.layout import PAGE
from chenxing.kvcache import KVCache
from chenxing.kvcache.files import Files

N_CTX = 8 * PAGE
PHASES = ("before", "midway", "after")


class KillingFiles(Files):
    """Kills this process at the `at`-th change of files: before it, after half of a write, or after it.

    Counts the changes if `at` is None.
    """

    def __init__(self, at: int | None = None, phase: str = "before") -> None:
        super().__init__()
        self.n, self._at, self._phase = 0, at, phase

    def open_writable(self, path: Path) -> int:
        return self._point(lambda: super(KillingFiles, self).open_writable(path))

    def write(self, fd: int, data: bytes | memoryview, offset: int) -> None:
        half = data[: len(data) // 2]
        self._point(lambda: super(KillingFiles, self).write(fd, data, offset), lambda: os.pwrite(fd, half, offset))

    def truncate(self, fd: int, n_bytes: int) -> None:
        self._point(lambda: super(KillingFiles, self).truncate(fd, n_bytes))

    def replace(self, source: Path, target: Path) -> None:
        self._point(lambda: super(KillingFiles, self).replace(source, target))

    def punch(self, fd: int, offset: int, n_bytes: int) -> None:
        self._point(lambda: super(KillingFiles, self).punch(fd, offset, n_bytes))

    def _point(self, change: Callable[[], Any], half: Callable[[], Any] = lambda: None) -> Any:
        self.n += 1
        due = self.n == self._at
        if due and self._phase == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        if due and self._phase == "midway":
            half()
            os.kill(os.getpid(), signal.SIGKILL)
        result = change()
        if due:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def texts(seed: int, n: int) -> list[list[int]]:
    """Prompts that share beginnings."""
    rng = np.random.default_rng(seed)
    out: list[list[int]] = [[1, 2, 3]]
    for _ in range(n):
        old = out[rng.integers(len(out))]
        kept = old[: rng.integers(len(old) + 1)] if rng.random() < 0.5 else old
        out.append([*kept, *rng.integers(0, 3, rng.integers(1, 3 * PAGE)).tolist()][:N_CTX])
    return out


def open_cache(folder: Path, disk_bytes: int, files: Files | None = None) -> KVCache:
    return KVCache(
        PAGE_BYTES, ram_bytes=60 * PAGE_BYTES, folder=folder, fingerprint={"name": "victim"},
        disk_bytes=disk_bytes, files=files,
    )  # fmt: skip


def load(folder: Path, seed: int, n: int, disk_bytes: int, files: Files, tell: Callable[[int], object]) -> None:
    """Compute texts one after the other; tell(i) when the i-th is in the files for certain."""
    cache = open_cache(folder, disk_bytes, files)
    for i, ids in enumerate(texts(seed, n)):
        sequence = cache.begin(ids, N_CTX)
        assert compute(sequence, ids[sequence.n_cached :])
        sequence.release()
        for _ in range(7):  # uses, so that the index is rewritten now and then
            cache.begin(ids, N_CTX).release()
        if i % 3 == 0:
            cache.flush()
            tell(i)
    cache.close()
