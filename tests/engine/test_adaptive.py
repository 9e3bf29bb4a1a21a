"""Lengths of drafts on simulated machines: what is won, and that nothing worth speaking of is lost."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from engine.fake_model import prompt, request

from chenxing.engine import Request
from chenxing.engine.speculation.adaptive import EARNED, START, Adaptive, Verified

N_MAX = 16
LENGTHS = range(1, N_MAX + 1)


@dataclass
class Machine:
    """A plain step takes 1 ms for each four answers, a drafted row `row` ms; a drafted token is right with p(place)."""

    row: float
    p: Callable[[int], float]
    noise: float = 0.0
    prior: tuple[float, ...] = (0.5,)
    lengths: range = LENGTHS

    def __post_init__(self) -> None:
        self.policy, self.rng = Adaptive(self.prior), random.Random(1)
        self.chosen: list[int] = []

    def answer(self, n_tokens: int, company: int = 0) -> float:
        """ms that an answer takes, beside so many others that are never drafted for."""
        mine = request(prompt(4))
        others = [request(prompt(4)) for _ in range(company)]
        place, ms = 0, 0.0
        while place < n_tokens:
            step_ms, n = self._step(mine, others, place)
            ms += step_ms
            place += n
        for r in (mine, *others):
            self.policy.forget(r)
        return ms

    def _step(self, mine: Request, others: list[Request], place: int) -> tuple[float, int]:
        n_answers = 1 + len(others)
        n = self.policy.length(mine, 0, self.lengths, n_answers) or 0
        self.chosen.append(n)
        n_right = next((i for i in range(n) if self.rng.random() >= self.p(place + i)), n)
        ms = (1 + self.row * n) * (1 + self.noise * abs(self.rng.gauss(0, 1)))
        step = [Verified(mine, 0, n, n_right), *(Verified(r, 0, 0, 0) for r in others)]
        self.policy.measured(step, ms)
        return 1 + self.row * n, 1 + n_right


def best_speed(p: float, row: float) -> float:
    """Tokens a ms of the best fixed length."""
    return max((1 + sum(p**i for i in range(1, n + 1))) / (1 + n * row) for n in range(N_MAX + 1))


@pytest.mark.parametrize("prior", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("row", [0.05, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("p", [0.0, 0.1, 0.3, 0.5, 0.98])
def test_no_answer_loses_more_than_it_may(p: float, row: float, prior: float) -> None:
    machine = Machine(row, lambda _: p, prior=(prior,))
    for n in (128, 1000):
        first_guess = 4 * row  # of the first draft, whose cost is not known yet
        assert machine.answer(n) <= n * (1 + EARNED) + START + first_guess
    assert machine.answer(1000) <= 1000 / 0.97


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("row", [0.05, 0.2, 0.4])
@pytest.mark.parametrize("p", [0.7, 0.9, 0.98])
def test_what_can_be_won_is_won(p: float, row: float, noise: float) -> None:
    machine = Machine(row, lambda _: p, noise)
    machine.answer(200)
    speed = 2000 / machine.answer(2000)
    assert speed > 0.8 * best_speed(p, row)  # it takes a while to learn, and goes on measuring plain steps


def test_it_is_switched_off_and_tried_again() -> None:
    """A text that begins like nothing before, and then repeats what it said."""
    machine = Machine(0.3, lambda place: 0.05 if place < 600 else 0.95)
    machine.answer(600)
    n_tried = sum(n > 0 for n in machine.chosen[-300:])
    assert 0 < n_tried < 30  # now and then
    machine.chosen.clear()
    ms = machine.answer(3000)
    assert ms < 600 * 1.05 + 2400 / 1.5
    assert max(machine.chosen[-50:]) > 6


def test_in_a_crowd_a_row_costs_everybody_time() -> None:
    """Where eight answers share a step, a drafted row takes eight times as much from them as from one alone."""
    few, many = Machine(0.2, lambda _: 0.8), Machine(0.2, lambda _: 0.8)
    few.answer(500)
    many.answer(500, company=7)
    assert sum(few.chosen[-50:]) > 50 and sum(many.chosen[-50:]) < 5


def test_lengths_are_within_what_is_asked_for() -> None:
    machine = Machine(0.1, lambda _: 0.9, lengths=range(4, 9))
    machine.answer(300)
    assert {0, *range(4, 9)} >= set(machine.chosen) and 8 in machine.chosen


def test_plain_time_is_measured_first() -> None:
    """Which is no verdict on drafts."""
    machine = Machine(0.1, lambda _: 0.9)
    assert machine.policy.length(request(prompt(4)), 0, LENGTHS, 1) is None
    machine.answer(20)
    new = request(prompt(4))
    assert machine.policy.length(new, 0, LENGTHS, 1) and machine.policy.length(new, 0, LENGTHS, 2) is None
