"""2,000 requests of random lengths, clients and fates in hardly any memory: every answer is the one it gets alone.

So are those whose tokens are drafted, rightly or wrongly.

Shown for the engine's loop over a model that is a function of what its pages hold, then for smaller crowds of models
with weights.
"""

import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from engine.fake_drafter import Longest, Seer
from engine.fake_model import EOG, Bench, FakeSampler, alone, request
from reference.toys import TOYS, prompt

from chenxing.engine import Limits, Request
from chenxing.engine.loop import Loop
from chenxing.engine.speculation import Speculation
from chenxing.gguf import open_gguf
from chenxing.kernels.cut import Cut, StepCut
from chenxing.kernels.layout import PAGE
from chenxing.kernels.library import KernelLibrary
from chenxing.kvcache import KVCache
from chenxing.models import Run, load_model
from chenxing.models.model import page_bytes, read_model
from chenxing.sampling import Sampler, SamplingParams
from chenxing.tokenizer import load_tokenizer

STOPS = ("", "", "th", "aa", "q.")


@dataclass
class Traffic:
    """Random requests for a fake model. Prompts begin like each other, often enough for all kinds of sharing."""

    rng: random.Random
    n_ctx: int
    known: list[list[int]] = field(default_factory=list)

    def requests(self, n: int) -> Iterator[list[Request]]:
        """Requests that are submitted together, n in all or a few more."""
        while n > 0:
            group = self._group()
            n -= len(group)
            yield group

    def _group(self) -> list[Request]:
        rng, ids = self.rng, self._prompt()
        options = {"priority": rng.choice((0, 0, 0, 1, 2)), "client": rng.randrange(5)}
        leader = self._request(ids, options)
        n_twins = rng.choice((0, 0, 0, 0, 1, 3))
        return [leader, *(self._request(ids, {**options, "twin_of": leader}) for _ in range(n_twins))]

    def _request(self, ids: list[int], options: dict) -> Request:
        rng = self.rng
        limits = Limits(
            max_tokens=rng.choice((None, rng.randrange(200), rng.randrange(100), rng.randrange(9))),
            end_ids=(EOG,) if rng.random() < 0.4 else (),
            stop=(rng.choice(STOPS),),
        )
        return request(ids, seed=rng.randrange(60), limits=limits, **options)

    def _prompt(self) -> list[int]:
        rng = self.rng
        n = rng.choice((1, rng.randrange(1, 40), rng.randrange(1, self.n_ctx + 1)))
        ids = [rng.randrange(EOG) for _ in range(n)]
        if self.known and rng.random() < 0.6:
            old = rng.choice(self.known)
            ids = (old[: rng.randrange(len(old) + 1)] + ids)[: self.n_ctx]
        self.known.append(ids)
        del self.known[:-40]
        return ids


PLAIN = [(500, 9, 6, 1, 0), (500, 12, 3, 2, 0), (500, 20, 16, 3, 0), (500, 100, 8, 4, 0)]
DRAFTED = [(150, 9, 6, 5, 1), (150, 9, 6, 6, 16), (150, 12, 3, 7, 4), (150, 20, 16, 8, 8), (150, 100, 8, 9, 2)]


@pytest.mark.parametrize(("n", "n_pages", "n_slots", "seed", "n_draft"), PLAIN + DRAFTED)
def test_every_answer_is_the_one_it_gets_alone(n: int, n_pages: int, n_slots: int, seed: int, n_draft: int) -> None:
    rng, n_ctx = random.Random(seed), 8 * PAGE  # the smallest memory holds one context
    speculation = Speculation(Seer(0.7), n_draft, policy=Longest()) if n_draft else None
    bench = Bench(n_ctx=n_ctx, n_slots=n_slots, n_pages=n_pages, speculation=speculation)
    mine: list[Request] = []
    for group in Traffic(rng, n_ctx).requests(n):
        bench.submit(*group)
        mine += group
        for r in rng.choices(mine[-12:], k=rng.choice((0, 0, 1))):
            r.cancel()
        bench.steps(rng.choice((0, 1, 2, 20)))
        if rng.random() < 0.1:
            bench.check_conserved()
    bench.finish()
    assert not bench.running and not bench.waiting
    for r in mine:
        check(r, n_ctx)
    told = dict.fromkeys(mine, "")
    for event in bench.events:
        told[event.request] += event.text
    assert all(told[r] == r.text for r in mine)
    ends = Counter(event.request for event in bench.events if event.finish_reason)
    assert ends == Counter(mine)  # each is told once
    reasons = Counter(r.finish_reason for r in mine)
    assert min(reasons["stop"], reasons["length"], reasons["cancelled"]) > n // 20 and "error" not in reasons
    n_preempted = sum(r.stats.n_preemptions > 0 for r in mine)
    assert n_preempted > n // 50 if n_pages < 100 else n_preempted == 0
    drafts = bench.loop.stats().drafts
    assert drafts.n_tokens > drafts.n_accepted > 3 * n if n_draft else not drafts.n_tokens


@pytest.mark.parametrize(("n_pages", "n_slots", "n_draft", "seed"), [(9, 2, 0, 1), (9, 3, 4, 2), (40, 8, 2, 3)])
def test_cancelled_while_their_steps_run(n_pages: int, n_slots: int, n_draft: int, seed: int) -> None:
    """A step ends early if all whom it serves are cancelled, and only then; to everybody else it has never been."""
    rng, n_ctx = random.Random(seed), 8 * PAGE
    speculation = Speculation(Seer(0.7), n_draft, policy=Longest()) if n_draft else None
    bench = Bench(n_ctx=n_ctx, n_slots=n_slots, n_pages=n_pages, n_batch=40, speculation=speculation)
    mine: list[Request] = []
    n_served: Counter[int] = Counter()

    def cancel_some(runs: Sequence[Run]) -> None:
        running = [r for run in runs for r in bench.running if r.sequence and r.sequence.table is run.pages]
        assert len(running) == len(runs)
        others = [r for r in bench.waiting if r.twin_of in running or (r.awaits and r.awaits[0] in running)]
        if rng.random() < 0.05:
            for r in [*running, *rng.choices(others, k=rng.choice((0, len(others)))), *rng.choices(mine, k=1)]:
                r.cancel()
        served = [*running, *others]
        assert bench.model.cut.is_set == all(r.is_cancelled for r in served)
        n_served[len(served)] += bench.model.cut.is_set

    bench.model.during = cancel_some
    for group in Traffic(rng, n_ctx).requests(400):
        bench.submit(*group)
        mine += group
        bench.steps(rng.choice((0, 2, 5, 30)))
        if rng.random() < 0.1:
            bench.check_conserved()
    bench.finish()
    assert bench.model.n_cut == n_served.total() > 30 and n_served[1] and n_served[2]
    for r in mine:
        check(r, n_ctx)
    assert Counter(event.request for event in bench.events if event.finish_reason) == Counter(mine)
    reasons = Counter(r.finish_reason for r in mine)
    assert min(reasons["stop"], reasons["length"]) > 20 and "error" not in reasons
    stats = bench.loop.stats()
    assert stats.n_steps == len(bench.model.steps) and stats.n_computed == sum(map(sum, bench.model.steps))


def check(r: Request, n_ctx: int) -> None:
    """The answer is the one without an engine, as far as it got."""
    sampler, ids = r.sampler, r.ids[: r.n_prompt]
    assert isinstance(sampler, FakeSampler) and r.state == "finished" and r.sequence is None
    if r.finish_reason == "cancelled":
        free, _ = alone(ids, n_ctx, seed=sampler.seed, limits=Limits(None, r.limits.end_ids))
        assert free.startswith(r.text)
    elif r.limits.max_tokens == 0:
        assert (r.text, r.finish_reason) == ("", "length")
    else:
        assert (r.text, r.finish_reason) == alone(ids, n_ctx, seed=sampler.seed, limits=r.limits)


@dataclass
class RealModel:
    """A model file with a loop of its own kind for each question."""

    path: Path
    n_ctx: int = 8 * PAGE

    def __post_init__(self) -> None:
        gguf = open_gguf(self.path)
        hp = read_model(gguf, self.n_ctx)
        self.tokenizer, self.page_bytes = load_tokenizer(gguf), page_bytes(hp)
        self.cut, self.n_cut = Cut(), 0
        self.model = load_model(gguf, hp, KernelLibrary(), 2, cut=self.cut)

    def step(self, runs: Sequence[Run]) -> np.ndarray:
        try:
            return self.model.step(runs)
        except StepCut:
            self.n_cut += 1
            raise

    def request(self, spec: tuple[list[int], int, int]) -> Request:
        ids, seed, max_tokens = spec
        params = SamplingParams(temp=0.0 if seed % 3 == 0 else 1.0, seed=seed, ignore_eos=seed % 4 > 0)
        sampler = Sampler(params, self.model.hp.n_vocab, eog_ids=self.tokenizer.eog_ids, prompt=ids)
        limits = Limits(max_tokens, self.tokenizer.eog_ids)
        return Request(ids, sampler, self.tokenizer.stream_decoder(), limits, client=seed % 3, priority=seed % 2)

    def loop(self, n_pages: int, n_slots: int) -> tuple[Loop, KVCache]:
        ram_bytes = n_pages * self.page_bytes
        cache = KVCache(self.page_bytes, ram_bytes=ram_bytes, folder=None, fingerprint={}, disk_bytes=0)
        return Loop(self, cache, self.n_ctx, n_slots, cut=self.cut), cache

    def alone(self, spec: tuple[list[int], int, int]) -> str:
        loop, _ = self.loop(self.n_ctx // PAGE + 1, 1)
        r = self.request(spec)
        loop.submit(r)
        while not loop.is_idle:
            loop.step()
        return r.text


def crowd(model: RealModel, texts: list[list[int]], n: int, seed: int) -> None:
    """n requests in a memory of 10 pages, six at a time, some of them cancelled."""
    rng = random.Random(seed)
    specs = []
    for i in range(n):
        start, more = rng.choice(texts), rng.choice(texts)
        ids = start[: rng.randrange(1, len(start) + 1)] + more[: rng.randrange(40)]
        specs.append((ids[: model.n_ctx], i, rng.choice((3, rng.randrange(40, 120)))))
    loop, cache = model.loop(10, 6)
    mine = [model.request(spec) for spec in specs]
    for r in mine:
        loop.submit(r)
        for _ in range(rng.choice((0, 0, 1, 8))):
            loop.step()
        if rng.random() < 0.15:
            rng.choice(mine).cancel()
    while not loop.is_idle:
        loop.step()
    cache.check_integrity()
    assert loop.stats().n_free == 10 and loop.stats().n_preemptions > 0
    n_whole = 0
    for r, spec in zip(mine, specs, strict=True):
        expected = model.alone(spec)
        if r.finish_reason == "cancelled":
            assert expected.startswith(r.text.rstrip("\ufffd"))  # half a character may have been cut off
        else:
            assert r.text == expected
            n_whole += 1
    assert n_whole > 0.7 * n


@pytest.mark.parametrize("name", ["qwen3-Q4_K", "gemma3"])
def test_a_crowd_of_a_toy_model(name: str, tmp_path: Path) -> None:
    model = RealModel(TOYS[name].write(tmp_path))
    try:
        crowd(model, [prompt(150, 1), prompt(200, 2), prompt(20, 3)], 24, 1)
    finally:
        model.model.close()


def test_a_toy_model_is_cancelled_at_any_instant(tmp_path: Path) -> None:
    """From another thread, while long prompts are computed one after the other; some are not, and notice nothing."""
    model, rng, n_pages = RealModel(TOYS["qwen3-Q4_K"].write(tmp_path), 32 * PAGE), random.Random(1), 70
    text = prompt(1000, 1)
    loop, cache = model.loop(n_pages, 1)
    expected = {i: model.alone((text[i:], i, 4)) for i in range(0, 200, 40)}
    while model.n_cut < 12:
        first = rng.choice(list(expected))
        victims = [model.request((text[first:], first, 4)) for _ in range(2)]
        survivor = model.request((text[first:], first, 4))
        for r in (*victims, survivor):
            loop.submit(r)
        timers = [threading.Timer(rng.random() * 0.05, r.cancel) for r in victims]
        for timer in timers:
            timer.start()
        while not loop.is_idle:
            loop.step()
        for timer in timers:
            timer.join()
        assert survivor.text == expected[first]
        assert all(r.text == expected[first] or r.finish_reason == "cancelled" for r in victims)
        cache.check_integrity()
        assert loop.stats().n_free == n_pages
        cache.forget(text[first:])  # so that there is something to compute again
    model.model.close()


@pytest.mark.model
@pytest.mark.slow
def test_a_crowd_of_a_real_model(smollm2_path: Path) -> None:
    model = RealModel(smollm2_path)
    text = "The rain fell in torrents, except at occasional intervals, when it was checked by a violent gust of wind. "
    texts = [model.tokenizer.encode(text * 6)[:200], model.tokenizer.encode("Once upon a time, there was a house.")]
    try:
        crowd(model, texts, 16, 2)
    finally:
        model.model.close()
