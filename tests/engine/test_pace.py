"""The size of prompts' chunks beside running answers, on machines whose time is simulated."""

import numpy as np
import pytest
from engine.fake_model import PAGE_BYTES, prompt, request

from chenxing.engine import Limits
from chenxing.engine.pace import FIRST_ROWS, MIN_ROWS, STALL_MS, Pace
from chenxing.engine.scheduler import Scheduler
from chenxing.kvcache import KVCache
from chenxing.models.model import N_BATCH


def run(pace: Pace, decode_ms: float, row_ms: float, n_steps: int = 30) -> list[float]:
    """ms of each of n_steps steps with one answer and a prompt without end, after one of the answer alone."""
    pace.measured(1, 0, decode_ms)
    return run_mixed(pace, decode_ms, row_ms, n_steps)


def run_mixed(pace: Pace, decode_ms: float, row_ms: float, n_steps: int = 30) -> list[float]:
    taken = []
    for _ in range(n_steps):
        ms = decode_ms + pace.n_rows * row_ms
        taken.append(ms)
        pace.measured(1, pace.n_rows, ms)
    return taken


@pytest.mark.parametrize("row_ms", [0.5, 1.0, 2.0])
def test_steps_approach_the_bound_from_below(row_ms: float) -> None:
    taken = run(Pace(N_BATCH), 10.0, row_ms)
    assert max(taken) <= STALL_MS and taken[-1] > STALL_MS - 2 * row_ms


def test_fast_machines_run_whole_batches_and_slow_ones_go_on() -> None:
    fast, slow = Pace(N_BATCH), Pace(N_BATCH)
    run(fast, 1.0, 0.01)
    run(slow, 200.0, 50.0)
    assert fast.n_rows == N_BATCH and slow.n_rows == MIN_ROWS and Pace(N_BATCH).n_rows == FIRST_ROWS


def test_rows_that_become_dearer_are_followed() -> None:
    """Attention costs more the deeper a prompt is: here ten times more within 100 steps."""
    pace = Pace(N_BATCH)
    run(pace, 10.0, 0.3)
    for row_ms in np.geomspace(0.3, 3.0, 100):
        ms = 10.0 + pace.n_rows * row_ms
        assert ms < 1.15 * STALL_MS
        pace.measured(1, pace.n_rows, ms)


@pytest.mark.parametrize("is_mixed", [True, False])
def test_one_stall_from_elsewhere_is_forgotten(is_mixed: bool) -> None:
    pace = Pace(N_BATCH)
    run(pace, 10.0, 1.0)
    before = pace.n_rows
    pace.measured(1, pace.n_rows if is_mixed else 0, 3000.0)
    run_mixed(pace, 10.0, 1.0)
    assert pace.n_rows > 0.9 * before


def test_a_running_answer_never_waits_longer_than_the_bound() -> None:
    """A scheduler on a simulated machine: 0.4 ms a row, and 2 us more for each 1,000 keys of it."""
    cache = KVCache(PAGE_BYTES, ram_bytes=600 * PAGE_BYTES, folder=None, fingerprint={}, disk_bytes=0)
    pace = Pace(N_BATCH)
    scheduler = Scheduler(cache, 8192, 4, pace)
    answer, long = request(prompt(4), limits=Limits()), request(prompt(8000, 2), limits=Limits())
    answer.number, long.number = 1, 2
    scheduler.add(answer)
    waits = []
    while not long.stats.n_generated:
        batch = scheduler.schedule()
        n_rows = [share.n_scheduled for share in batch.shares]
        depths = [share.request.sequence.n_tokens for share in batch.shares if share.request.sequence]
        ms = 5.0 + sum(n * (0.4 + 2e-5 * depth) for n, depth in zip(n_rows, depths, strict=True))
        for share in batch.shares:
            assert share.request.sequence
            last = share.is_last
            share.request.sequence.commit(share.tokens)
            if last:
                share.request.take(1, 8192)
        pace.measured(sum(n == 1 for n in n_rows), sum(n for n in n_rows if n > 1), ms)
        waits.append(ms)
        if len(waits) == 5:
            scheduler.add(long)
    assert batch.shares[0].request is answer and answer.stats.n_generated == len(waits)
    assert max(waits) < 1.1 * STALL_MS
    assert len(waits) < 8000 / 100  # and the prompt goes on nevertheless
