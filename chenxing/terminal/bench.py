"""Measuring a model as llama-bench does: prompts of random tokens, and tokens one by one, nothing sampled.

A test is repeated after a warm-up; before each repetition the same threads read a buffer once, so that every figure
has the memory's own speed of the same moment beside it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from chenxing.engine import MEMORY_ONLY, Engine
from chenxing.gguf import GGUF
from chenxing.kernels.library import KernelLibrary, Progress
from chenxing.models.model import read_model
from chenxing.models.work import Work, count_work
from chenxing.terminal.bench_read import PlainRead

_WARM_TOKENS = 8  # one by one, in a warm-up


@dataclass(frozen=True)
class Test:
    """n_prompt tokens at once or n_gen one by one (the other is 0), after n_depth tokens that are not timed."""

    __test__ = False  # not pytest's

    n_prompt: int
    n_gen: int
    n_depth: int

    @property
    def n_tokens(self) -> int:
        return self.n_prompt + self.n_gen

    @property
    def label(self) -> str:
        """As llama-bench writes it: pp512, tg128, pp512 @ d4096."""
        name = f"pp{self.n_prompt}" if self.n_prompt else f"tg{self.n_gen}"
        return f"{name} @ d{self.n_depth}" if self.n_depth else name


@dataclass(frozen=True)
class Result:
    """What one test took on n_threads: seconds of each repetition, and the bytes/s of the plain read before it.

    bytes   that the repetition reads: weights and KV; 0 for a prompt, whose weights are read once for many tokens
    macs    multiply-adds of a prompt, 0 for single tokens
    """

    test: Test
    isa: str
    n_threads: int
    seconds: Sequence[float]
    read_rates: Sequence[float]
    bytes: int
    macs: int

    @property
    def rates(self) -> list[float]:
        """Tokens per second of each repetition."""
        return [self.test.n_tokens / s for s in self.seconds]


def plan(n_prompts: Sequence[int], n_gens: Sequence[int], n_depths: Sequence[int]) -> list[Test]:
    """The tests of these lists in llama-bench's order; a 0 leaves its kind out."""
    tests = []
    for n_depth in n_depths:
        tests += [Test(n, 0, n_depth) for n in n_prompts if n]
        tests += [Test(0, n, n_depth) for n in n_gens if n]
    return tests


def run_tests(
    gguf: GGUF,
    tests: Sequence[Test],
    n_threads: Sequence[int],
    n_repetitions: int,
    on_progress: Progress | None = None,
    *,
    int8: bool = False,
) -> Iterator[Result]:
    """The result of every test with every number of threads, as it is there."""
    n_ctx = max(test.n_depth + test.n_tokens for test in tests)
    library = KernelLibrary()
    for n in n_threads:
        engine = Engine(gguf, read_model(gguf, n_ctx), n_ctx, library, n, on_progress, int8=int8, cache=MEMORY_ONLY)
        try:
            read = PlainRead(library, engine.model.team)
            work = count_work(engine.hp, engine.model.weights, engine.kv_type)
            for test in tests:
                yield _measure(engine, work, test, n_repetitions, read)
        finally:
            engine.close()


def _measure(engine: Engine, work: Work, test: Test, n_repetitions: int, read: PlainRead) -> Result:
    rng = np.random.default_rng(1)

    def tokens(n: int) -> list[int]:  # new ones each time: nothing is to be found in a cache
        return rng.integers(0, engine.hp.n_vocab, n).tolist()

    depth = tokens(test.n_depth)
    once = _prompt(engine, depth) if test.n_prompt else _one_by_one(engine, depth)
    once(tokens(test.n_prompt or min(test.n_gen, _WARM_TOKENS)))
    read()
    seconds, read_rates = [], []
    for _ in range(n_repetitions):
        read_rates.append(read())
        seconds.append(once(tokens(test.n_tokens)))
    if test.n_prompt:
        n_bytes, macs = 0, work.prompt_macs(test.n_depth, test.n_prompt)
    else:
        n_bytes, macs = test.n_gen * work.weight_bytes + work.kv_bytes(test.n_depth, test.n_gen), 0
    return Result(test, engine.isa, engine.n_threads, seconds, read_rates, n_bytes, macs)


def _prompt(engine: Engine, depth: list[int]) -> Callable[[list[int]], float]:
    """Seconds that a prompt takes after `depth`."""

    def once(ids: list[int]) -> float:
        if depth:
            engine.prompt(depth)
        start = time.perf_counter()
        engine.prompt(depth + ids)
        return time.perf_counter() - start

    return once


def _one_by_one(engine: Engine, depth: list[int]) -> Callable[[list[int]], float]:
    """Seconds that tokens take one by one after `depth`; without it the first one opens an empty context."""

    def once(ids: list[int]) -> float:
        if depth:
            engine.prompt(depth)
        start = time.perf_counter()
        if not depth:
            engine.prompt(ids[:1])
        for token in ids if depth else ids[1:]:
            engine.append(token)
        return time.perf_counter() - start

    return once
