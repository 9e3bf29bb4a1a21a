"""What the text before says of the next tokens, against a search through all of it."""

import random

import pytest
from engine.fake_model import request

from chenxing.engine.speculation.ngram import AT_ONCE, LONGER, N_GRAM, NGramDrafter, NGramIndex


def naive_places(ids: list[int]) -> dict[int, int]:
    """Where the last N_GRAM ids stood before: what follows each place, and how many ids match there."""
    places = {}
    for at in range(N_GRAM, len(ids)):
        n = 0
        while n < at and ids[at - 1 - n] == ids[len(ids) - 1 - n]:
            n += 1
        if n >= N_GRAM:
            places[at] = n
    return places


@pytest.mark.parametrize(("n_vocab", "seed"), [(2, 1), (3, 2), (5, 3), (20, 4)])
def test_a_match_is_a_true_one_and_none_is_missed(n_vocab: int, seed: int) -> None:
    rng = random.Random(seed)
    ids: list[int] = []
    index = NGramIndex()
    n_found = 0
    while len(ids) < 400:
        ids += [rng.randrange(n_vocab) for _ in range(rng.choice((1, 1, 1, 7)))]
        if rng.random() < 0.1:
            start = rng.randrange(len(ids))
            ids += ids[start : start + 12]  # something said again
        index.read(ids)
        places = naive_places(ids)
        assert (index.at is not None) == bool(places)
        if index.at is not None:
            assert N_GRAM <= index.n_matched <= places[index.at]
            assert index.n_matched >= min(places[index.at], LONGER[-1])
            n_found += 1
    assert n_found > 10


def test_a_match_is_followed_rather_than_left_for_a_newer_shorter_one() -> None:
    index, said = NGramIndex(), [9, 1, 2, 3, 4, 5, 1, 2, 3, 7]
    ids = [*said, 0, 9, 1, 2]
    index.read(ids)
    assert index.at == 3 and index.n_matched == N_GRAM
    ids.append(3)
    index.read(ids)
    assert index.at == 4 and index.n_matched == 4 and index.guess(ids, 3) == [4, 5, 1]


def test_a_repetition_goes_on_repeating() -> None:
    index, ids = NGramIndex(), [7, 1, 2, 1, 2, 1, 2]
    index.read(ids)
    assert index.guess(ids, 5) == [1, 2, 1, 2, 1]


def test_the_work_for_a_token_does_not_grow_with_the_text() -> None:
    class Counted(list[int]):
        n_reads = 0

        def __getitem__(self, i):  # type: ignore[no-untyped-def]
            Counted.n_reads += 1
            return super().__getitem__(i)

    rng = random.Random(1)
    ids, index = Counted(rng.randrange(4) for _ in range(2 * AT_ONCE + 1)), NGramIndex()
    for n_read in (AT_ONCE, 2 * AT_ONCE, 2 * AT_ONCE + 1):
        index.read(ids)
        assert index.n_read == n_read  # a long prompt holds nobody up
    ids.append(1)
    Counted.n_reads = 0
    index.read(ids)
    assert Counted.n_reads < 3 + 2 * LONGER[-1]


def test_kinds_of_drafts_are_by_the_length_of_the_match() -> None:
    drafter, said = NGramDrafter(), list(range(10, 60))
    r = request([*said, 0])
    kinds = []
    for token in said[:20]:
        r.ids.append(token)
        kinds.append(drafter.outlook(r))
    assert kinds[: N_GRAM - 1] == [None] * (N_GRAM - 1)
    assert [kinds.index(kind) + 1 for kind in range(len(drafter.prior))] == [N_GRAM, *LONGER]
    assert drafter.draft([(r, 4)]) == [said[20:24]]
    drafter.forget(r)
    drafter.forget(r)
