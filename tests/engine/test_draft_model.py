"""Drafts by a second model, which keeps its KV in pages of its own."""

from collections.abc import Sequence

import numpy as np
import pytest
from engine.fake_model import N_VOCAB, PAGE_BYTES, FakeModel, logits_of, next_state, prompt, request

from chenxing.engine import Request
from chenxing.engine.speculation.draft_model import FAR_BEHIND, DraftModel
from chenxing.kernels.layout import PAGE
from chenxing.kvcache import KVCache
from chenxing.models import Run
from chenxing.models.model import N_BATCH


class SmallModel(FakeModel):
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


class Bench:
    def __init__(self, n_ctx: int = 256, n_pages: int = 32) -> None:
        self.model = SmallModel()
        self.cache = KVCache(PAGE_BYTES, ram_bytes=n_pages * PAGE_BYTES, folder=None, fingerprint={}, disk_bytes=0)
        self.drafter = DraftModel(self.model, self.cache, n_ctx, N_VOCAB)

    def draft(self, *wanted: tuple[Request, int]) -> list[list[int] | None]:
        self.model.steps.clear()
        drafts = self.drafter.draft(wanted)
        self.cache.check_integrity()
        return drafts

    def committed(self, r: Request) -> list[int]:
        return self.drafter._contexts[r].sequence.ids


def likeliest(ids: Sequence[int], n: int) -> list[int]:
    """What the model would go on with, computed from nothing."""
    state, out = 0, list(ids)
    for position, token in enumerate(out):
        state = next_state(state, token, position)
    for _ in range(n):
        out.append(int(logits_of(state).argmax()))
        state = next_state(state, out[-1], len(out) - 1)
    return out[len(ids) :]


@pytest.mark.parametrize("n_right", range(6))
def test_it_goes_on_from_what_the_answer_made_of_its_draft(n_right: int) -> None:
    bench, r = Bench(), request(prompt(20))
    (draft,) = bench.draft((r, 5))
    assert draft == likeliest(r.ids, 5) and bench.model.steps == [[20], [1], [1], [1], [1]]
    assert bench.committed(r) == r.ids
    for _ in range(20):
        assert draft
        wrong = (draft[n_right] + 1) % N_VOCAB if n_right < 5 else 3
        r.ids += [*draft[:n_right], wrong]
        (draft,) = bench.draft((r, 5))
        assert draft == likeliest(r.ids, 5) and bench.committed(r) == r.ids
        assert bench.model.steps == [[1 if n_right < 5 else 2], [1], [1], [1], [1]]  # the last drafted one has no KV


def test_only_tokens_of_the_answer_are_ever_found_by_others() -> None:
    bench, r = Bench(), request(prompt(PAGE - 2))
    (draft,) = bench.draft((r, 16))
    assert draft
    r.ids.append((draft[0] + 1) % N_VOCAB)
    assert bench.cache.match([*r.ids[:-1], *draft, 0]) <= r.n_prompt  # its page is not even full
    bench.draft((r, 16))
    assert bench.cache.match([*r.ids[:-1], *draft, 0]) <= r.n_prompt
    bench.drafter.forget(r)
    assert bench.cache.match([*r.ids, 0]) == len(r.ids)
    bench.cache.check_integrity()


def test_a_draft_that_was_cut_short_is_no_reason_to_skip_the_last_token() -> None:
    """The answer may choose just what was drafted and not verified: its logits are wanted nevertheless."""
    bench, r = Bench(), request(prompt(20))
    (draft,) = bench.draft((r, 6))
    assert draft
    r.ids += draft[:3]
    assert bench.draft((r, 4)) == [likeliest(r.ids, 4)]


def test_many_are_drafted_for_at_once() -> None:
    bench = Bench()
    mine = [request(prompt(10 + i, i)) for i in range(4)]
    drafts = bench.draft(*((r, n) for r, n in zip(mine, (1, 4, 2, 4), strict=True)))
    assert drafts == [likeliest(r.ids, n) for r, n in zip(mine, (1, 4, 2, 4), strict=True)]
    assert bench.model.steps == [[10, 11, 12, 13], [1, 1, 1], [1, 1], [1, 1]]


def test_who_is_far_behind_catches_up_first() -> None:
    bench, r, near = Bench(n_ctx=1024), request(prompt(N_BATCH + FAR_BEHIND + 40)), request(prompt(9, 2))
    assert bench.draft((r, 4)) == [None] and bench.model.steps == [[N_BATCH]]
    assert bench.draft((near, 4), (r, 4)) == [likeliest(near.ids, 4), None]
    assert bench.model.steps[0] == [9, FAR_BEHIND + 39]
    assert bench.draft((r, 4)) == [likeliest(r.ids, 4)] and bench.model.steps[0] == [1]


def test_a_prefix_that_is_known_is_not_computed_again() -> None:
    bench, ids = Bench(), prompt(100)
    first, second = request(ids), request([*ids, 1, 2])
    bench.draft((first, 2))
    bench.draft((first, 2))
    bench.drafter.forget(first)
    assert bench.draft((second, 2)) == [likeliest(second.ids, 2)] and bench.model.steps == [[2], [1]]


def test_a_context_that_is_full_ends_the_drafts() -> None:
    bench, r = Bench(n_ctx=32), request(prompt(29))
    assert bench.drafter.outlook(r) == 0 and bench.draft((r, 8)) == [likeliest(r.ids, 3)]
    r.ids += [1, 2, 3]
    assert bench.drafter.outlook(r) is None


def test_where_pages_run_out_the_idle_give_way_and_then_there_is_no_draft() -> None:
    bench = Bench(n_ctx=64, n_pages=2)
    a, b = request(prompt(30)), request(prompt(30, 2))
    bench.draft((a, 2))
    assert bench.draft((b, 4)) == [likeliest(b.ids, 4)]  # two pages, one of them a's
    drafts = bench.draft((a, 4), (b, 4))
    assert None in drafts
    for r, draft in zip((a, b), drafts, strict=True):
        assert draft in (None, likeliest(r.ids, 4))


def test_tokens_that_only_the_draft_model_has_are_not_drafted() -> None:
    class Wide(SmallModel):
        def step(self, runs: Sequence[Run]) -> np.ndarray:
            logits = super().step(runs)
            return np.concatenate([logits, np.full((len(logits), 3), 99, np.float32)], axis=1)

    bench = Bench()
    bench.drafter._model = Wide()
    r = request(prompt(5))
    assert bench.draft((r, 3)) == [likeliest(r.ids, 3)]


def test_tokens_that_only_the_answer_has_end_the_drafts() -> None:
    bench, r = Bench(), request(prompt(5))
    assert bench.drafter.outlook(r) == 0
    r.ids += [N_VOCAB, 1]
    assert bench.drafter.outlook(r) is None
    r.ids.append(2)
    assert bench.drafter.outlook(r) is None


def test_closing_ends_all() -> None:
    bench, r = Bench(), request(prompt(5))
    bench.draft((r, 3))
    bench.drafter.close()
    assert bench.model.is_closed and bench.cache.n_free == bench.cache.n_pages
