"""Whose turn it is: priorities, clients in rotation, and nobody forgotten."""

from collections import Counter

from engine.fake_model import request

from chenxing.engine import Request
from chenxing.engine.rotation import PATIENCE, Rotation


def make(spec: str) -> list[Request]:
    """'a0 b0 a5': requests of clients with priorities, in the order of their coming."""
    return [request([1], client=word[0], priority=int(word[1:])) for word in spec.split()]


def take(turns: Rotation, candidates: list[Request], n: int) -> str:
    """The clients of the next n turns; each request is gone when it had its own."""
    out = ""
    for _ in range(n):
        chosen = turns.choose(candidates)
        turns.took(chosen, candidates)
        candidates.remove(chosen)
        out += str(chosen.client)
    return out


def test_one_client_is_served_in_order() -> None:
    candidates = make("a0 a0 a0")
    first = list(candidates)
    turns = Rotation()
    for r in first:
        assert turns.choose(candidates) is r
        turns.took(r, candidates)
        candidates.remove(r)


def test_clients_rotate() -> None:
    assert take(Rotation(), make("a0 a0 a0 a0 b0 b0 c0"), 7) == "abcabaa"


def test_who_comes_new_joins_at_the_end_of_the_rotation() -> None:
    turns, candidates = Rotation(), make("a0 a0 a0 b0 b0 b0")
    assert take(turns, candidates, 1) == "a"
    candidates += make("c0")
    assert take(turns, candidates, 4) == "bacb"


def test_a_stream_of_new_clients_does_not_keep_an_old_one_waiting() -> None:
    turns, candidates, served = Rotation(), make("a0 a0 a0"), ""
    for letter in "bcdefghijk":
        candidates += make(f"{letter}0 {letter}0")
        served += take(turns, candidates, 2)
    assert served.count("a") == 3


def test_choosing_alone_takes_no_turn() -> None:
    turns, candidates = Rotation(), make("a0 b0")
    assert turns.choose(candidates) is turns.choose(candidates) is candidates[0]


def test_higher_priorities_go_first_and_lower_ones_do_not_starve() -> None:
    candidates = make("a0 b1 " + "c2 " * 100)
    served = take(Rotation(), candidates, 2 * PATIENCE + 4)
    assert served[:PATIENCE] == "c" * PATIENCE
    assert Counter(served)["a"] == Counter(served)["b"] == 1
