"""Who runs next to whom, who begins, and who gives way; answers are the same in every case."""

import random

import pytest
from engine.fake_model import (
    LETTERS,
    Bench,
    expect_alone,
    pages,
    prompt,
    request,
    shifting,
    upto,
)

from chenxing.engine import Limits, Shift
from chenxing.engine.scheduler import _n_common
from chenxing.errors import OutOfMemoryError
from chenxing.kernels.layout import PAGE
from chenxing.models.model import N_BATCH

ENDLESS = Limits()


def test_how_many_tokens_two_lists_share() -> None:
    rng = random.Random(1)
    for _ in range(300):
        n = rng.randrange(70)
        same = [rng.randrange(9) for _ in range(n)]
        a, b = same + [1] * rng.randrange(3), same + [2] * rng.randrange(3)
        assert _n_common(a, b) == n
    assert _n_common([1, 2, 3, 9, 5], [1, 2, 4, 9, 5]) == 2


def test_answers_come_first_and_prompts_share_what_is_left() -> None:
    bench = Bench(n_ctx=2048, n_pages=300)
    short = [request(prompt(4, i), limits=upto(60)) for i in range(3)]
    bench.submit(*short)
    bench.steps(3)
    bench.submit(request(prompt(1000, 9), limits=upto(1)), request(prompt(900, 8), limits=upto(1), client="b"))
    n_before = len(bench.model.steps)
    bench.finish()
    for rows in bench.model.steps[n_before:]:
        n_answers = rows.index(next(n for n in rows if n > 1)) if max(rows) > 1 else len(rows)
        assert rows[:n_answers] == [1] * n_answers and sum(rows) <= N_BATCH
    assert all(rows[:3] == [1, 1, 1] for rows in bench.model.steps[n_before : n_before + 50])


def test_a_prompt_alone_takes_whole_batches() -> None:
    bench = Bench(n_ctx=2048, n_pages=70)
    bench.submit(request(prompt(600), limits=upto(2)))
    bench.finish()
    assert bench.model.steps == [[256], [256], [88], [1]]
    assert [e.n_computed for e in bench.events] == [256, 512, 600, 600]


def test_one_request_beside_32_of_another_client() -> None:
    bench = Bench(n_slots=4)
    many = [request(prompt(10, i), limits=upto(6), client="many") for i in range(32)]
    bench.submit(*many)
    bench.steps(2)
    one = request(prompt(10, 99), limits=upto(6), client="one")
    bench.submit(one)
    bench.finish()
    assert bench.order_of("finished").index(one) <= 9  # the four that ran, and at most one more round
    assert bench.order_of("finished")[0] is many[0]


def test_the_chunks_of_long_prompts_take_turns_between_clients() -> None:
    bench = Bench(n_ctx=4096, n_pages=400)
    answer = bench.submit(request(prompt(4), limits=ENDLESS, client="c"))
    bench.steps(2)
    long = [request(prompt(3000, i), limits=upto(1), client="a") for i in (1, 2)]
    short = request(prompt(300, 3), limits=upto(1), client="b")
    bench.submit(*long, short)
    bench.steps(200)
    order = bench.order_of("finished")
    assert order == [short, long[0], long[1]]
    answer.cancel()
    bench.finish()


def test_priorities() -> None:
    bench = Bench(n_slots=1)
    low = [request(prompt(5, i), limits=upto(3)) for i in range(3)]
    bench.submit(*low)
    bench.steps(1)
    high = request(prompt(5, 9), limits=upto(3), priority=1)
    bench.submit(high)
    bench.finish()
    assert bench.order_of("started") == [low[0], high, low[1], low[2]]


def test_a_low_priority_does_not_starve() -> None:
    bench = Bench(n_slots=1)
    low = bench.submit(request(prompt(5), limits=upto(1)))
    bench.submit(*(request(prompt(5, i), limits=upto(1), priority=7) for i in range(50)))
    bench.finish()
    assert 10 < bench.order_of("started").index(low) < 20


def test_preempted_and_resumed() -> None:
    bench = Bench(n_pages=9, n_slots=3)
    mine = [request(prompt(40, i), seed=i, limits=upto(100)) for i in range(3)]
    bench.submit(*mine)
    bench.finish()
    assert mine[0].stats.n_preemptions == 0 and sum(r.stats.n_preemptions for r in mine) > 0
    assert bench.loop.stats().n_preemptions == sum(r.stats.n_preemptions for r in mine)
    for r in mine:
        expect_alone(r, bench.n_ctx)
        assert r.stats.n_cached == 0  # what it found when it resumed is not counted as the prompt's


def test_the_youngest_of_the_lowest_priority_gives_way() -> None:
    bench = Bench(n_pages=9, n_slots=3)
    old, young = request(prompt(40, 1), limits=upto(100)), request(prompt(40, 2), limits=upto(100))
    important = request(prompt(40, 3), limits=upto(100), priority=1)
    bench.submit(old, young, important)
    bench.finish()
    assert important.stats.n_preemptions == 0 and young.stats.n_preemptions > 0
    assert bench.order_of("finished")[0] is important


def test_resuming_costs_only_the_tail() -> None:
    bench = Bench(n_pages=8, n_slots=2)
    a, b = request(prompt(90, 1), limits=upto(60)), request(prompt(90, 2), limits=upto(60))
    bench.submit(a, b)
    while not b.stats.n_preemptions:
        bench.steps(1)
    n_known = bench.cache.match(b.ids)
    assert n_known >= len(b.ids) - 1 - PAGE
    bench.finish()
    expect_alone(b, bench.n_ctx)


def test_twins_without_a_slot_begin_later_from_the_tree() -> None:
    bench = Bench(n_slots=2)
    ids = prompt(75)
    leader = request(ids, seed=1, limits=upto(20))
    twins = [request(ids, seed=1 + i, limits=upto(20), twin_of=leader) for i in range(1, 4)]
    bench.submit(leader, *twins)
    bench.finish()
    for r in (leader, *twins):
        expect_alone(r, bench.n_ctx)
    assert min(r.stats.n_cached for r in twins) >= 64


def test_who_shares_a_long_prefix_waits_for_it() -> None:
    bench = Bench(n_ctx=2048, n_pages=200)
    common = prompt(600)
    first, second = request([*common, 1], limits=upto(3)), request([*common, 2], limits=upto(3))
    other = request(prompt(40, 5), limits=upto(3))
    bench.submit(first, second, other)
    bench.steps(1)
    assert second.state == "waiting" and other.state == "running"
    bench.finish()
    assert second.stats.n_cached >= 600 // PAGE * PAGE
    assert sum(map(sum, bench.model.steps)) < 601 + 40 + 40 + 9
    expect_alone(second, bench.n_ctx)


def test_more_than_memory_holds() -> None:
    bench = Bench(n_ctx=1024, n_pages=4)
    too_long = request(prompt(4 * PAGE + 1), limits=upto(5))
    grows = request(prompt(100, 2), limits=upto(500))
    fits = request(prompt(100, 3), limits=upto(5))
    bench.submit(too_long, grows, fits)
    bench.finish()
    assert too_long.finish_reason == "error" and isinstance(too_long.error, OutOfMemoryError)
    assert grows.finish_reason == "length" and len(grows.ids) == 4 * PAGE + 1
    expect_alone(fits, bench.n_ctx)


def test_nobody_begins_who_would_be_preempted_at_once() -> None:
    bench = Bench(n_pages=8)
    a = bench.submit(request(prompt(100, 1), limits=upto(100)))
    bench.steps(1)
    b = request(prompt(100, 2), limits=upto(2))
    bench.submit(b)
    bench.steps(5)
    assert a.state == "running" and len(pages(a)) == 4 and b.state == "waiting"  # 4 pages, and none to spare
    bench.finish()
    assert b.stats.n_preemptions == 0


@pytest.mark.parametrize("n_keep", [0, 1, 50, 1000])
def test_an_answer_longer_than_its_context_goes_on_with_a_part_of_it(n_keep: int) -> None:
    bench, shift = Bench(n_ctx=128, n_slots=2), Shift(100, n_keep)
    mine = [request(prompt(40, i), seed=i, limits=Limits(300, shift=shift)) for i in range(1, 4)]
    bench.submit(*mine)
    bench.finish()
    for i, r in enumerate(mine, 1):
        text, n_shifts = shifting(prompt(40, i), 300, shift, i)
        assert n_shifts >= 4 and r.text == text and r.finish_reason == "length"
        assert "".join(LETTERS[token] for token in r.token_ids) == text and len(r.ids) <= 101


def test_a_smaller_batch() -> None:
    bench = Bench(n_batch=16)
    r = request(prompt(75), limits=upto(5))
    bench.submit(r)
    bench.finish()
    assert bench.model.steps[:5] == [[16], [16], [16], [16], [11]]
    expect_alone(r, bench.n_ctx)
