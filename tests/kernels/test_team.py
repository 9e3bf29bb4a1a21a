"""The executor runs every chunk of every op once, in order of ops, whatever the threads do."""

import threading
import time

import numpy as np
import pytest
from in_process import HERE

from chenxing.kernels import layout as L
from chenxing.kernels.cut import Cut, StepCut
from chenxing.kernels.memory import address, aligned
from chenxing.kernels.team import STEP, WORKER, Team
from chenxing.models.program import Part, Program, Prologue

ADD, SUM = "kernels_under_test:add_chunk", "kernels_under_test:sum_all"


class TestLibrary:
    """The part of KernelLibrary that a team and a program use, over kernels compiled here."""

    __test__ = False

    def __init__(self, compiler, isa):
        self.isa = isa
        self.addresses = {r: compiler.address(r, isa) for r in (ADD, SUM, STEP, WORKER)}

    def require(self, references, on_progress=None):
        assert set(references) <= self.addresses.keys()


@pytest.fixture(scope="module")
def library(compiler):
    return TestLibrary(compiler, HERE[0])


class Chain:
    """Ops that each add 1 to their own cells; one of them may set the word of a cut with one chunk more, its first."""

    def __init__(self, library, cut: Cut, sizes: list[int], cuts_at: int | None = None) -> None:
        self.cells = [aligned(n, np.int64) for n in sizes]
        self.program = Program()
        for i, cells in enumerate(self.cells):
            setter = [Part(ADD, [cut.address, 1, 1], 1)] if i == cuts_at else []
            self.program.add([*setter, Part(ADD, [address(cells), 1, 1], len(cells))])
        self.program.finish(library)

    def counts(self) -> list[set[int]]:
        """How often chunks ran, for each op."""
        return [set(cells.tolist()) for cells in self.cells]


def counters(n_rows: int) -> np.ndarray:
    step = aligned(L.STEP_WORDS, np.int64)
    step[[L.ONE, L.N_ROWS]] = 1, n_rows
    return step


def chain(library, n_chunks: list[int]) -> tuple[Program, np.ndarray]:
    """Ops that each add 1 to their own chunks, and after each one an op that sums what it did."""
    program = Program()
    sums = aligned(len(n_chunks), np.int64)
    for i, n in enumerate(n_chunks):
        cells = program.buffer(n * 8)
        program.add([Part(ADD, [cells, 1, 1], n)])
        program.add([Part(SUM, [cells, n, address(sums) + 8 * i], 1)])
    program.finish(library)
    return program, sums


@pytest.mark.parametrize("n_threads", [1, 2, 3, 7])
def test_every_chunk_runs_once_and_before_the_next_op(library, n_threads):
    rng = np.random.default_rng(n_threads)
    sizes = [int(n) for n in rng.integers(1, 60, 40)]
    program, sums = chain(library, sizes)
    team = Team(library, n_threads)
    for step in range(1, 40):
        program.run(team, counters(1))
        # a sum that saw a chunk too late or twice would differ in this step or a later one
        assert sums.tolist() == [n * step for n in sizes]
    team.close()


def test_workers_sleep_and_wake(library):
    program, sums = chain(library, [8] * 4)
    team = Team(library, 3)
    for step in range(1, 6):
        program.run(team, counters(1))
        assert sums.tolist() == [8 * step] * 4
        deadline = time.monotonic() + 20
        while not all(team._asleep[1:]):
            assert time.monotonic() < deadline, "workers still spin"
            time.sleep(0.01)
    team.close()


def test_programs_of_different_sizes_take_turns(library):
    """Late threads may look at a plan that another program has replaced."""
    programs = [chain(library, sizes) for sizes in ([1], [50] * 30, [3, 1, 4, 1, 5])]
    lengths = ([1], [50] * 30, [3, 1, 4, 1, 5])
    team = Team(library, 5)
    rng = np.random.default_rng(0)
    runs = [0, 0, 0]
    for _ in range(200):
        i = int(rng.integers(3))
        programs[i][0].run(team, counters(1))
        runs[i] += 1
        assert programs[i][1].tolist() == [n * runs[i] for n in lengths[i]]
    team.close()


def test_parts_of_one_op_and_counts_by_rows(library):
    program = Program()
    a, b = aligned(64, np.int64), aligned(64, np.int64)
    program.add([Part(ADD, [address(a), 1, 1], 3, L.N_ROWS), Part(ADD, [address(b), 1, 5], 1, L.N_ROWS, 4)])
    program.finish(library)
    team = Team(library, 2)
    program.run(team, counters(10))
    team.close()
    assert a.tolist() == [1] * 30 + [0] * 34
    assert b.tolist() == [5] * 3 + [0] * 61


def test_prologues_run_for_every_thread_in_small_steps_only(library):
    program = Program()
    scratch, shared, done = aligned(64, np.int64), aligned(64, np.int64), aligned(8, np.int64)
    prologue = Prologue(ADD, (address(scratch), 1, 1))
    program.add([Part(ADD, [address(shared), 1, 1], 1, L.N_ROWS)], when=L.MANY_ROWS)
    program.add([Part(ADD, [address(done), 1, 1], 1)], prologue)
    program.finish(library)
    team = Team(library, 1)
    program.run(team, counters(L.EACH_ROWS))
    assert scratch.sum() == L.EACH_ROWS and shared.sum() == 0 and done.sum() == 1
    program.run(team, counters(L.EACH_ROWS + 1))
    assert scratch.sum() == L.EACH_ROWS and shared.sum() == L.EACH_ROWS + 1 and done.sum() == 2
    team.close()


def test_ops_for_few_or_many_rows(library):
    program = Program()
    cells = aligned(8, np.int64)
    for i, when in enumerate((L.FEW_ROWS, L.MANY_ROWS, L.ALWAYS)):
        program.add([Part(ADD, [address(cells) + 8 * i, 1, 1], 1)], when=when)
    program.finish(library)
    team = Team(library, 1)
    for n_rows in (1, L.EACH_ROWS, L.EACH_ROWS + 1):
        program.run(team, counters(n_rows))
    team.close()
    assert cells[:3].tolist() == [2, 1, 3]


def test_ops_for_outputs_are_left_out_without_any(library):
    program = Program()
    cells = aligned(8, np.int64)
    program.add([Part(ADD, [address(cells), 1, 1], 1)], when=L.ANY_OUTPUT)
    program.add([Part(ADD, [address(cells) + 8, 1, 1], 1)])
    program.finish(library)
    team = Team(library, 1)
    step = counters(1)
    program.run(team, step)
    step[L.N_OUTPUTS] = 1
    program.run(team, step)
    team.close()
    assert cells[:2].tolist() == [1, 2]


def test_a_step_ends_beside_a_busy_process(library):
    """Python threads that hold the GIL and the processors delay a step; they must not stop it."""
    program, sums = chain(library, [16] * 50)
    team = Team(library, 4)
    stop = threading.Event()

    def burn():
        while not stop.is_set():
            sum(range(1000))

    burners = [threading.Thread(target=burn, daemon=True) for _ in range(3)]
    for thread in burners:
        thread.start()
    for _ in range(20):
        program.run(team, counters(1))
    stop.set()
    team.close()
    assert sums.tolist() == [320] * 50


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_a_step_ends_after_any_op_and_the_next_one_is_whole(library, n_threads):
    rng = np.random.default_rng(n_threads)
    cut = Cut()
    team = Team(library, n_threads, cut)
    sizes = [int(n) for n in rng.integers(1, 40, 30)]
    for at in range(len(sizes)):
        cut.begin()
        chain = Chain(library, cut, sizes, at)
        with pytest.raises(StepCut):
            chain.program.run(team, counters(1))
        counts = chain.counts()
        assert counts[:at] == [{1}] * at and counts[at] <= {0, 1} and counts[at + 1 :] == [{0}] * (len(sizes) - at - 1)
        if n_threads == 1:
            assert counts[at] == {0}  # chunks are passed over as soon as the word is set
        cut.begin()
        whole = Chain(library, cut, sizes)
        whole.program.run(team, counters(1))
        assert whole.counts() == [{1}] * len(sizes) and chain.counts() == counts  # late threads did nothing
    team.close()


@pytest.mark.parametrize("n_threads", [2, 4])
def test_steps_that_are_ended_from_another_thread_at_any_time(library, n_threads):
    """No chunk runs twice or out of turn; a step that ends without StepCut is whole."""
    rng = np.random.default_rng(n_threads)
    cut = Cut()
    team = Team(library, n_threads, cut)
    sizes = [int(n) for n in rng.integers(1, 300, 60)]
    chain = Chain(library, cut, sizes)
    wanted, is_over = threading.Event(), threading.Event()
    steps, n_cut, n_whole = 0, 0, 0

    def ender():
        while not is_over.is_set():
            if wanted.wait(0.1):
                wanted.clear()
                cut.end(steps)

    thread = threading.Thread(target=ender)
    thread.start()
    while min(n_cut, n_whole) < 50:
        for cells in chain.cells:
            cells[:] = 0
        steps = cut.begin()
        if rng.random() < 0.7:
            wanted.set()
        try:
            chain.program.run(team, counters(1))
            n_whole += 1
            assert chain.counts() == [{1}] * len(sizes)
        except StepCut:
            n_cut += 1
            counts = chain.counts()
            n_full = next((i for i, c in enumerate(counts) if c != {1}), len(sizes))
            assert all(c <= {0, 1} for c in counts) and counts[n_full + 1 :] == [{0}] * len(counts[n_full + 1 :])
    is_over.set()
    thread.join()
    team.close()


def test_who_comes_too_late_ends_no_other_step(library):
    cut = Cut()
    team = Team(library, 1, cut)
    late = cut.begin()
    for _ in range(3):
        cut.begin()
        chain = Chain(library, cut, [3, 4])
        cut.end(late)
        chain.program.run(team, counters(1))
        assert not cut.is_set and chain.counts() == [{1}] * 2
    cut.end(cut.begin())
    with pytest.raises(StepCut):  # before it has begun
        chain.program.run(team, counters(1))
    assert cut.is_set and chain.counts() == [{1}] * 2
    team.close()


def test_teams_that_share_a_cut_end_together(library):
    cut = Cut()
    teams = [Team(library, 2, cut) for _ in range(2)]
    chain = Chain(library, cut, [3, 4])
    cut.end(cut.begin())
    for team in teams:
        with pytest.raises(StepCut):
            chain.program.run(team, counters(1))
    assert chain.counts() == [{0}] * 2
    for team in teams:
        team.close()
