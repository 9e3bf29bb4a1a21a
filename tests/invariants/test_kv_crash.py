"""A process killed at any point of its writing loses nothing that was sealed, and nothing wrong is served (law L5)."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from invariants import victim
from invariants.random_use import Known
from kvcache.pattern import check, compute

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
PLENTY, LITTLE = 1 << 30, 20_000  # bytes on disk; with little, pages are dropped and slots written again


def kill(
    folder: Path, seed: int, n: int, disk_bytes: int, at: int | None = None, phase: str = "", delay: float | None = None
) -> list[int]:
    """Run the load in a process that is killed, at a point or after a delay. -> texts that were certainly sealed."""
    reader, writer = os.pipe()
    pid = os.fork()  # not multiprocessing, whose children begin with importing pytest
    if pid == 0:
        status = 1
        try:
            files = victim.KillingFiles(at, phase)
            victim.load(folder, seed, n, disk_bytes, files, lambda i: os.write(writer, bytes([i])))
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    if delay is not None:
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
    told = b""
    while more := os.read(reader, 100):
        told += more
    os.close(reader)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) in (-signal.SIGKILL, 0)
    return list(told)


def survive(folder: Path, seed: int, n: int, disk_bytes: int, told: list[int]) -> None:
    """Open what is left: all that was told is there, all that is there is right, and work goes on."""
    known, texts = Known(), victim.texts(seed, n)
    for ids in texts:
        known.add(ids)
    cache = victim.open_cache(folder, disk_bytes)
    if disk_bytes == PLENTY:
        for i in told:
            assert cache.match([*texts[i], 0]) >= len(texts[i])
    for ids in texts:
        sequence = cache.begin(ids, victim.N_CTX)
        assert sequence.n_cached <= known.longest(ids[:-1])
        check(sequence, ids[: sequence.n_cached])
        assert compute(sequence, ids[sequence.n_cached :])
        sequence.release()
        cache.check_integrity()
    assert cache.stats().n_damaged == 0  # a record is written after its page
    cache.close()
    again = victim.open_cache(folder, disk_bytes)
    sequence = again.begin([*texts[-1], 0], victim.N_CTX + 1)
    if disk_bytes == PLENTY:
        assert sequence.n_cached == len(texts[-1])
    check(sequence, texts[-1][: sequence.n_cached])
    sequence.release()
    again.close()


def n_points(folder: Path, n: int, disk_bytes: int) -> int:
    files = victim.KillingFiles()
    victim.load(folder, 0, n, disk_bytes, files, lambda i: None)
    return files.n


@pytest.mark.parametrize("disk_bytes", [PLENTY, LITTLE])
def test_killed_at_some_points(tmp_path, disk_bytes):
    last = n_points(tmp_path / "count", 8, disk_bytes)
    for at in np.linspace(1, last, 8).astype(int).tolist():
        told = kill(tmp_path / str(at), 0, 8, disk_bytes, at, victim.PHASES[at % 3])
        survive(tmp_path / str(at), 0, 8, disk_bytes, told)


@pytest.mark.slow
@pytest.mark.parametrize("disk_bytes", [PLENTY, LITTLE])
@pytest.mark.parametrize("phase", victim.PHASES)
def test_killed_at_every_point(tmp_path, disk_bytes, phase):
    for at in range(1, n_points(tmp_path / "count", 11, disk_bytes) + 1):
        told = kill(tmp_path / str(at), 0, 11, disk_bytes, at, phase)
        survive(tmp_path / str(at), 0, 11, disk_bytes, told)


@pytest.mark.slow
@pytest.mark.parametrize("disk_bytes", [PLENTY, LITTLE])
def test_killed_at_random_instants(tmp_path, disk_bytes):
    rng = np.random.default_rng(0)
    for seed in range(150):
        told = kill(tmp_path / str(seed), seed, 40, disk_bytes, delay=rng.uniform(0, 0.08))
        survive(tmp_path / str(seed), seed, 40, disk_bytes, told)
