"""Merging against the rule itself, written out slowly."""

import random
from itertools import pairwise

from chenxing.tokenizer.merging import NO_PAIR, Merger, pack


def _naive(symbols: list[int], find) -> list[int]:
    """Take the best pair, of equal ones the leftmost, as long as there is one."""
    symbols = list(symbols)
    while True:
        pairs = [(find(a, b) >> 32, i) for i, (a, b) in enumerate(pairwise(symbols)) if min(a, b) >= 0]
        rank, i = min(pairs, default=(NO_PAIR >> 32, 0))
        if rank == NO_PAIR >> 32:
            return symbols
        symbols[i : i + 2] = [find(symbols[i], symbols[i + 1]) & 0xFFFFFFFF]


def test_random_tables() -> None:
    rng = random.Random(3)
    for _ in range(150):
        n = rng.randrange(2, 9)
        # few ranks, so that there are ties; merges may make symbols that merge earlier than they did
        table = {
            (a, b): pack(rng.randrange(4), rng.randrange(40))
            for a in range(40)
            for b in range(40)
            if rng.random() < 0.2
        }
        find = lambda a, b, table=table: table.get((a, b), NO_PAIR)  # noqa: E731
        merger = Merger(find)
        for length in (0, 1, 2, 5, 30, 60, 150):
            symbols = [rng.randrange(-1, n) for _ in range(length)]
            assert merger.merge(symbols) == _naive(symbols, find)


def test_the_list_is_not_changed() -> None:
    symbols = [1] * 100
    assert Merger(lambda a, b: pack(0, 1)).merge(symbols) == [1]
    assert symbols == [1] * 100


def test_each_pair_is_asked_for_once() -> None:
    asked: list[tuple[int, int]] = []

    def find(left: int, right: int) -> int:
        asked.append((left, right))
        return pack(5, 2) if (left, right) == (1, 1) else NO_PAIR

    merger = Merger(find)
    for _ in range(3):
        assert merger.merge([1, 1, 1, -4]) == [2, 1, -4]
    assert sorted(asked) == [(1, 1), (2, 1)]
