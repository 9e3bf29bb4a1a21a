"""Shares of accepted tokens: what is known beforehand gives way to what is seen."""

import pytest

from chenxing.engine.speculation.acceptance import Acceptance


def test_it_begins_with_the_prior_and_learns() -> None:
    seen = Acceptance((0.4, 0.8))
    assert seen.share(0) == pytest.approx(0.4) and seen.share(1) == pytest.approx(0.8)
    for _ in range(200):
        seen.saw(0, 4, 4)
    assert seen.share(0) > 0.95 and seen.share(1) == pytest.approx(0.8)


def test_what_follows_a_wrong_token_was_not_tried() -> None:
    long, short = Acceptance((0.5,)), Acceptance((0.5,))
    long.saw(0, 16, 2)
    short.saw(0, 3, 2)
    assert long.share(0) == short.share(0) > 0.5
    right = Acceptance((0.5,))
    right.saw(0, 2, 2)
    assert right.share(0) > long.share(0)


def test_one_answer_teaches_the_next() -> None:
    everybody = Acceptance((0.5,))
    first = Acceptance(everybody)
    for _ in range(50):
        first.saw(0, 4, 0)
    second = Acceptance(everybody)
    assert first.share(0) < second.share(0) < 0.15
    for _ in range(50):
        second.saw(0, 4, 4)
    assert second.share(0) > 0.9  # its own text counts most


def test_it_never_is_certain() -> None:
    seen = Acceptance((0.9,))
    for _ in range(10_000):
        seen.saw(0, 16, 16)
    assert seen.share(0) < 1
