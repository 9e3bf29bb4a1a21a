"""The engine's loop over a fake model: what each request gets, from its submission to its end."""

import numpy as np
import pytest
from engine.fake_drafter import Longest
from engine.fake_model import EOG, N_VOCAB, Bench, FakeModel, FakeSampler, alone, expect_alone, prompt, request, upto

from chenxing.engine import Limits, Request
from chenxing.engine.speculation import Speculation
from chenxing.engine.speculation.draft_model import DraftModel

ENDLESS = Limits()


def test_one_request_gets_what_it_gets_without_an_engine() -> None:
    bench = Bench()
    r = bench.submit(request(prompt(70), limits=upto(50)))
    bench.finish()
    expect_alone(r, bench.n_ctx)
    assert "".join(e.text for e in bench.events) == r.text and r.stats.n_generated == 50 == len(r.token_ids)
    assert [e.finish_reason for e in bench.events if e.finish_reason] == ["length"]
    assert bench.model.steps == [[70]] + [[1]] * 49


def test_the_ends_of_answers() -> None:
    bench = Bench()
    free = alone(prompt(20), 256, limits=upto(40))[0]
    stop = free[10:13]
    eog = request(prompt(20, 3), seed=5, limits=Limits(end_ids=(EOG,)))
    stopped = request(prompt(20), limits=Limits(stop=(stop,)))
    full = request(prompt(20, 4), limits=ENDLESS)
    none = request(prompt(20), limits=upto(0))
    bench.submit(eog, stopped, full, none)
    bench.finish()
    assert stopped.text == free[: free.index(stop)] and stopped.finish_reason == "stop"
    assert full.finish_reason == "length" and len(full.ids) == bench.n_ctx + 1  # the last token needs no place
    assert (none.text, none.finish_reason, none.stats.n_cached) == ("", "length", 0)
    expect_alone(eog, bench.n_ctx)
    assert eog.finish_reason == "stop" and EOG not in eog.token_ids


@pytest.mark.parametrize("when", ["inbox", "waiting", "prefill", "first token", "decode", "preempted"])
def test_cancelled_at_any_time(when: str) -> None:
    n_slots, n_pages = (1 if when == "waiting" else 2), (10 if when == "preempted" else 40)
    bench = Bench(n_ctx=1024, n_pages=n_pages, n_slots=n_slots)
    other, victim = request(prompt(20, 1), limits=upto(200)), request(prompt(200, 2), seed=3, limits=upto(200))
    bench.submit(other)
    bench.steps(2)
    bench.submit(victim)
    reached = {
        "inbox": lambda: True,
        "waiting": lambda: victim in bench.waiting,
        "prefill": lambda: victim.state == "running" and victim.n_pending > 1,
        "first token": lambda: victim.stats.n_generated == 1,
        "decode": lambda: victim.stats.n_generated == 10,
        "preempted": lambda: victim.stats.n_preemptions == 1,
    }[when]
    while not reached():
        bench.steps(1)
    n_before = victim.stats.n_generated
    victim.cancel()
    bench.steps(1)
    assert victim.finish_reason == "cancelled" and victim.state == "finished" and victim.sequence is None
    assert victim.stats.n_generated == n_before and [e.request for e in bench.events if e.finish_reason] == [victim]
    bench.check_conserved()
    if when in {"first token", "decode"}:
        assert bench.cache.match(victim.ids) >= victim.n_prompt - 1  # what was computed stays
    bench.finish()
    expect_alone(other, bench.n_ctx)


def test_cancelled_while_its_step_runs() -> None:
    bench = Bench()
    r = request(prompt(10), limits=upto(20), observe=lambda _logits, _token: r.cancel())
    bench.submit(r)
    bench.steps(1)
    assert r.finish_reason == "cancelled" and r.text == ""


def test_a_step_for_a_cancelled_request_alone_ends_early() -> None:
    bench, n_before = Bench(n_batch=40), 2
    ids = prompt(200)
    r = bench.submit(request(ids, limits=upto(20)))
    bench.steps(n_before)
    stats = bench.loop.stats()
    bench.model.during = lambda _: r.cancel()
    bench.steps(1)
    assert bench.model.n_cut == 1 and bench.loop.stats() == stats and r.finish_reason is None
    bench.check_conserved()
    bench.steps(1)
    assert r.finish_reason == "cancelled" and bench.loop.is_idle
    bench.model.during = lambda _: None
    again = bench.submit(request(ids, limits=upto(20)))
    bench.finish()
    assert again.stats.n_cached == 40 * n_before  # whole steps stay, for this step was none
    expect_alone(again, bench.n_ctx)


def test_a_step_that_others_have_a_part_in_goes_on() -> None:
    bench = Bench()
    victim, other = (request(prompt(60, i), limits=upto(9)) for i in (1, 2))
    bench.submit(victim, other)
    bench.model.during = lambda _: victim.cancel()
    bench.finish()
    assert bench.model.n_cut == 0 and victim.finish_reason == "cancelled"
    expect_alone(other, bench.n_ctx)


@pytest.mark.parametrize("is_twin", [True, False])
def test_a_step_that_others_wait_for_goes_on(is_twin: bool) -> None:
    bench = Bench(n_batch=40)
    ids = prompt(100)
    victim = request(ids, limits=upto(9))
    other = request(ids if is_twin else [*ids, 1], limits=upto(9), twin_of=victim if is_twin else None)
    bench.submit(victim, other)
    bench.model.during = lambda _: victim.cancel()
    bench.finish()
    assert bench.model.n_cut == 0 and bench.model.steps[0] == [40] and other.stats.n_cached >= 32
    expect_alone(other, bench.n_ctx)


def test_a_draft_model_ends_with_the_step_that_it_drafts_for() -> None:
    def end(_runs: object) -> None:
        if small.steps:  # behind the answer's tokens, within the draft
            r.cancel()

    class Small(FakeModel):
        def close(self) -> None: ...

    small, cache = Small(), Bench().cache
    speculation = Speculation(DraftModel(small, cache, 256, N_VOCAB), 5, policy=Longest())
    bench = Bench(speculation=speculation)
    small.cut = bench.model.cut
    r = bench.submit(request(prompt(30), limits=upto(50)))
    bench.steps(1)
    small.during = end
    bench.steps(1)
    assert small.n_cut == 1 and bench.model.steps == [[30]] and r.stats.n_generated == 1
    bench.finish()
    cache.check_integrity()
    assert r.finish_reason == "cancelled" and cache.n_free == cache.n_pages


def test_twins_share_the_prompt_and_its_last_logits() -> None:
    bench = Bench(n_slots=4)
    ids = prompt(75)
    leader = request(ids, seed=1, limits=upto(20))
    twins = [request(ids, seed=1 + i, limits=upto(20), twin_of=leader) for i in (1, 2)]
    bench.submit(leader, *twins)
    bench.finish()
    assert bench.model.steps[0] == [75] and bench.model.steps[1] == [1, 1, 1]
    assert len({r.text for r in (leader, *twins)}) == 3
    for r in (leader, *twins):
        expect_alone(r, bench.n_ctx)
    assert [r.stats.n_cached for r in (leader, *twins)] == [0, 75, 75]


def test_twins_of_a_cancelled_leader_go_on() -> None:
    bench = Bench()
    ids = prompt(75)
    leader = request(ids, limits=upto(20))
    twin = request(ids, seed=2, limits=upto(20), twin_of=leader)
    bench.submit(leader, twin)
    leader.cancel()
    bench.finish()
    expect_alone(twin, bench.n_ctx)


def test_an_error_is_its_own_requests_alone() -> None:
    class Broken(FakeSampler):
        def sample(self, logits: np.ndarray) -> int:
            if len(self.accepted) == 3:
                raise ValueError("no such thing")
            return super().sample(logits)

    bench = Bench()
    broken = Request(prompt(10), Broken(), request([1]).decoder, upto(9))
    sound = request(prompt(10, 2), limits=upto(9))
    bench.submit(broken, sound)
    bench.finish()
    assert broken.finish_reason == "error" and str(broken.error) == "no such thing" and len(broken.text) == 3
    expect_alone(sound, bench.n_ctx)


def test_a_listener_that_raises_has_gone() -> None:
    def hang_up(_event: object) -> None:
        raise RuntimeError("loop is closed")

    bench = Bench()
    r = bench.submit(request(prompt(10), limits=upto(9), on_event=hang_up))
    bench.finish()
    assert r.finish_reason == "cancelled" and r.stats.n_generated == 1


def test_the_order_of_coming_changes_no_text() -> None:
    texts = []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        bench = Bench(n_pages=10, n_slots=3)
        mine = [request(prompt(30 + 9 * i, i), seed=i + 1, limits=upto(70)) for i in range(4)]
        for i in order:
            bench.submit(mine[i])
            bench.steps(order[i])
        bench.finish()
        texts.append([r.text for r in mine])
    assert texts[0] == texts[1]


def test_an_observer_sees_what_the_model_gave() -> None:
    bench, seen = Bench(), []
    watched = request(
        prompt(10), seed=1, limits=upto(5), observe=lambda logits, token: seen.append((logits.copy(), token))
    )
    bench.submit(watched)
    bench.finish()
    assert [token for _, token in seen] == watched.token_ids
    assert all(np.isfinite(row).all() and row.shape == (N_VOCAB,) for row, _ in seen)


def test_stats() -> None:
    bench = Bench(n_slots=1)
    a, b = request(prompt(50, 1), limits=upto(5)), request(prompt(50, 2), limits=upto(5))
    bench.submit(a, b)
    bench.steps(1)
    stats = bench.loop.stats()
    assert (stats.n_running, stats.n_waiting, stats.n_computed, stats.n_generated, stats.n_steps) == (1, 1, 50, 1, 1)
    assert stats.n_free == stats.n_pages - 2
    bench.finish()
    assert b.stats.queue_ms > a.stats.queue_ms > 0 and a.stats.prompt_ms > 0 and a.stats.generation_ms > 0
    assert bench.loop.stats().n_generated == 10 and bench.loop.stats().n_computed == 100 + 8


def test_closing_cancels_all() -> None:
    bench = Bench(n_slots=1)
    mine = [request(prompt(50, i), limits=upto(50)) for i in range(3)]
    bench.submit(*mine[:2])
    bench.steps(2)
    bench.submit(mine[2])
    bench.loop.close()
    assert [r.finish_reason for r in mine] == ["cancelled"] * 3
    bench.cache.check_integrity()
    bench.cache.close()
