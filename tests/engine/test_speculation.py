"""Drafts in the engine's loop: what is drafted, verified, kept and counted. That no text changes is shown elsewhere."""

from collections.abc import Sequence

import numpy as np
import pytest
from engine.fake_drafter import Longest, Seer
from engine.fake_model import (
    EOG,
    LETTERS,
    Bench,
    FakeSampler,
    Letters,
    alone,
    expect_alone,
    prompt,
    request,
    shifting,
    upto,
)

from chenxing.engine import Limits, Request, Shift
from chenxing.engine.speculation import NGramDrafter, Speculation
from chenxing.kernels.layout import PAGE
from chenxing.models.model import N_OUTPUTS


class Told(Seer):
    """Always right, and always ready."""

    def __init__(self) -> None:
        super().__init__(1.0)

    def draft(self, wanted: Sequence[tuple[Request, int]]) -> list[list[int] | None]:
        return [self._future(r, n) for r, n in wanted]


class Wrong(Told):
    """Never right."""

    def draft(self, wanted: Sequence[tuple[Request, int]]) -> list[list[int] | None]:
        return [[(token + 1) % EOG for token in self._future(r, n)] for r, n in wanted]


def speculating(drafter: Seer, n_max: int = 4, **options) -> tuple[Bench, Longest]:
    policy = Longest()
    n_min = options.pop("n_min", 0)
    return Bench(speculation=Speculation(drafter, n_max, n_min, policy), **options), policy


def test_right_drafts_come_in_fewer_steps() -> None:
    bench, _ = speculating(Told())
    r = bench.submit(request(prompt(20), limits=upto(31)))
    bench.finish()
    expect_alone(r, bench.n_ctx)
    assert bench.model.steps == [[20]] + [[5]] * 6  # one token of the prompt's step, then five a step
    drafts = r.stats.drafts
    assert (drafts.n_drafts, drafts.n_tokens, drafts.n_accepted, drafts.n_skipped) == (6, 24, 24, 0)
    assert bench.loop.stats().drafts == drafts and bench.loop.stats().spec_type == "seer"
    assert bench.loop.stats().n_computed == 20 + 30 and bench.loop.stats().n_generated == 31


def test_wrong_drafts_cost_rows_and_nothing_else() -> None:
    bench, policy = speculating(Wrong())
    r = bench.submit(request(prompt(20), limits=upto(20)))
    bench.finish()
    expect_alone(r, bench.n_ctx)
    assert bench.model.steps == [[20], *[[5]] * 15, [4], [3], [2], [1]]
    assert r.stats.drafts.n_accepted == 0 and all(v.n_accepted == 0 for step in policy.steps for v in step)


def test_the_last_tokens_need_no_rows() -> None:
    """A draft ends before max_tokens and before the end of the context."""
    bench, _ = speculating(Told(), 16, n_ctx=64)
    short, full = request(prompt(20), limits=upto(9)), request(prompt(60, 2), limits=Limits())
    bench.submit(short)
    bench.finish()
    bench.submit(full)
    bench.finish()
    assert bench.model.steps == [[20], [8], [60], [4]]
    for r in (short, full):
        expect_alone(r, bench.n_ctx)


def test_an_end_in_the_middle_of_a_draft() -> None:
    free, _ = alone(prompt(20), 256, limits=upto(40))
    stop = free[10:13]
    bench, _ = speculating(Told(), 16)
    stopped = request(prompt(20), limits=Limits(stop=(stop,)))
    eog = request(prompt(20, 3), seed=5, limits=Limits(end_ids=(EOG,)))
    bench.submit(stopped, eog)
    bench.finish()
    assert (stopped.text, stopped.finish_reason) == (free[: free.index(stop)], "stop")
    expect_alone(eog, bench.n_ctx)
    assert eog.finish_reason == "stop" and EOG not in eog.token_ids
    for r in (stopped, eog):  # what is kept is no more than the answer, and all of it is right
        again = bench.submit(request(r.ids[:-1], seed=r.sampler.seed, limits=upto(3)))  # type: ignore[attr-defined]
        bench.finish()
        expect_alone(again, bench.n_ctx)
        assert again.stats.n_cached == len(r.ids) - 2


def test_no_token_that_was_drafted_wrongly_is_ever_found() -> None:
    bench, _ = speculating(Wrong(), 16)
    r = bench.submit(request(prompt(20), limits=upto(3 * PAGE)))
    wrong: list[list[int]] = []
    while not bench.loop.is_idle:
        n = len(r.ids)
        bench.steps(1)
        wrong.append([*r.ids[:n], (r.ids[n] + 1) % EOG, 0] if len(r.ids) > n else [])
        bench.cache.check_integrity()
    for ids in filter(None, wrong):
        assert bench.cache.match(ids) <= len(ids) - 2


def test_pages_that_only_a_draft_needed_are_given_back() -> None:
    bench, _ = speculating(Wrong(), 16)
    r = bench.submit(request(prompt(PAGE - 4), limits=upto(20)))
    while r.stats.n_generated < 4:
        bench.steps(1)
        assert r.sequence and len(r.sequence.held_pages()) == 1
    bench.finish()


def test_drafts_take_no_page_from_anybody() -> None:
    """There is one page too few for drafts across its end: they stop there, and nobody is preempted."""
    bench, _ = speculating(Told(), 16, n_pages=2, n_ctx=2 * PAGE)
    mine = [request(prompt(20, i), limits=upto(10)) for i in (1, 2)]
    bench.submit(*mine)
    bench.finish()
    for r in mine:
        expect_alone(r, bench.n_ctx)
    assert bench.loop.stats().n_preemptions == 0 and bench.loop.stats().drafts.n_accepted > 0


def test_a_step_has_so_many_rows_of_logits_and_no_more() -> None:
    bench, _ = speculating(Told(), 16, n_slots=8)
    mine = [request(prompt(9, i), seed=i, limits=upto(60)) for i in range(8)]
    bench.submit(*mine)
    bench.finish()
    for r in mine:
        expect_alone(r, bench.n_ctx)
    assert N_OUTPUTS - 16 < max(map(sum, bench.model.steps[1:])) <= N_OUTPUTS


def test_a_prompt_beside_drafts_gets_the_rows_that_are_left() -> None:
    bench, policy = speculating(Told(), 16, n_ctx=1024, n_pages=200)
    answer, long = request(prompt(9), limits=upto(200)), request(prompt(900, 2), limits=upto(1))
    bench.submit(answer)
    bench.steps(3)
    n_measured = len(policy.steps)
    bench.submit(long)
    bench.loop._pace.n_rows = 20
    bench.steps(1)
    assert bench.model.steps[-1] == [17, 4]
    assert len(policy.steps) == n_measured  # a step with somebody's prompt says nothing of a draft's cost
    bench.finish()
    for r in (answer, long):
        expect_alone(r, bench.n_ctx)


@pytest.mark.parametrize(("n_min", "steps"), [(0, [[20], [4], [1]]), (4, [[20], *[[1]] * 5])])
def test_short_drafts_are_not_tried(n_min: int, steps: list[list[int]]) -> None:
    class ThreeAtMost(Told):
        def draft(self, wanted: Sequence[tuple[Request, int]]) -> list[list[int] | None]:
            return super().draft([(r, min(n, 3)) for r, n in wanted])

    bench, _ = speculating(ThreeAtMost(), 8, n_min=n_min)
    bench.submit(request(prompt(20), limits=upto(6)))
    bench.finish()
    assert bench.model.steps == steps


def test_a_grammar_is_asked_before_rows_are_spent() -> None:
    class Strict(FakeSampler):
        def n_permitted(self, tokens: Sequence[int]) -> int:
            return min(2, len(tokens))

    bench, _ = speculating(Told(), 8)
    r = bench.submit(Request(prompt(20), Strict(), Letters(), upto(10)))
    bench.finish()
    expect_alone(r, bench.n_ctx)
    assert bench.model.steps == [[20], [3], [3], [3]]


def test_tokens_that_end_an_answer_are_not_drafted() -> None:
    class Ending(Told):
        def draft(self, wanted: Sequence[tuple[Request, int]]) -> list[list[int] | None]:
            return [[*self._future(r, 2), EOG, 1][:n] for r, n in wanted]

    bench, _ = speculating(Ending(), 8)
    bench.submit(request(prompt(20), limits=Limits(7, (EOG,))))
    bench.finish()
    assert bench.model.steps == [[20], [3], [3]]


def test_an_error_in_the_middle_of_a_draft_keeps_what_was_before_it() -> None:
    class Broken(FakeSampler):
        def sample(self, logits: np.ndarray) -> int:
            if len(self.accepted) == 3:
                raise ValueError("no such thing")
            return super().sample(logits)

    bench, _ = speculating(Told(), 8)
    r = bench.submit(Request(prompt(10), Broken(), Letters(), upto(9)))
    bench.finish()
    assert r.finish_reason == "error" and str(r.error) == "no such thing"
    assert r.text == alone(prompt(10), 256, limits=upto(9))[0][:3]


def test_observers_see_each_token_once_with_its_logits() -> None:
    seen: dict[bool, list[tuple[bytes, int]]] = {True: [], False: []}
    for drafted in seen:
        told = seen[drafted]
        bench = speculating(Seer(0.5), 8)[0] if drafted else Bench()
        r = request(prompt(10), seed=1, limits=upto(40), observe=lambda row, t, to=told: to.append((row.tobytes(), t)))
        bench.submit(r)
        bench.finish()
    assert seen[True] == seen[False] and len(seen[True]) == 40


def test_cancelled_between_drafts() -> None:
    bench, _ = speculating(Told())
    r = bench.submit(request(prompt(20), limits=upto(100)))
    bench.steps(4)
    n = r.stats.n_generated
    r.cancel()
    bench.steps(1)
    assert r.finish_reason == "cancelled" and r.stats.n_generated == n == 16
    bench.check_conserved()
    assert bench.cache.match([*r.ids, 0]) == len(r.ids) - 1


def test_what_is_known_of_an_answer_is_forgotten_with_it() -> None:
    drafter = Told()
    bench, _ = speculating(drafter, n_pages=9)
    mine = [request(prompt(40, i), seed=i, limits=upto(100)) for i in range(4)]
    bench.submit(*mine)
    bench.steps(30)
    mine[0].cancel()
    bench.finish()
    assert not drafter._futures and any(r.stats.n_preemptions for r in mine)


def test_ngrams_find_what_repeats() -> None:
    """Endless repetition: a model that says the same three letters for ever."""

    class Parrot(FakeSampler):
        def sample(self, logits: np.ndarray) -> int:
            return len(self.accepted) % 3

    bench = Bench(speculation=Speculation(NGramDrafter(), 8, policy=Longest()))
    r = bench.submit(Request(prompt(10), Parrot(), Letters(), upto(60)))
    bench.finish()
    assert r.text == "abc" * 20 and r.stats.drafts.n_accepted > 40 and len(bench.model.steps) < 16


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_no_draft_reaches_beyond_a_context_that_shifts(share: float) -> None:
    shift = Shift(100, 10)
    expected = {i: shifting(prompt(40, i), 300, shift, i)[0] for i in (1, 2)}

    class Shifted(Seer):
        def _future(self, request: Request, n: int) -> list[int]:
            assert isinstance(request.sampler, FakeSampler)
            at = request.stats.n_generated
            return [LETTERS.index(letter) for letter in expected[request.sampler.seed][at : at + n]]

    for drafter in (Shifted(share), NGramDrafter()):
        bench = Bench(speculation=Speculation(drafter, 8, policy=Longest()), n_ctx=128)
        mine = [request(prompt(40, i), seed=i, limits=Limits(300, shift=shift)) for i in (1, 2)]
        bench.submit(*mine)
        bench.finish()
        assert [r.text for r in mine] == [expected[1], expected[2]]
