"""What rows cost, on machines whose time is simulated."""

import random

import pytest

from chenxing.engine.speculation.step_costs import ENOUGH, FIRST_GUESS, STALE, StepCosts


def plain(costs: StepCosts, ms: float, n_answers: int = 1, n: int = ENOUGH) -> None:
    for _ in range(n):
        costs.measured(n_answers, 0, ms)


def test_cost_is_the_share_of_plain_steps_that_fit_into_the_time() -> None:
    costs = StepCosts()
    plain(costs, 10.0)
    for _ in range(20):
        assert costs.measured(1, 4, 14.0) == pytest.approx(0.4)
    assert costs.cost(1, 4) == pytest.approx(0.4, rel=0.01)
    assert costs.cost(1, 8) == pytest.approx(0.8, rel=0.01)  # by what a row of the nearest size costs
    plain(costs, 20.0, n_answers=4)
    assert costs.measured(4, 4, 25.0) == pytest.approx(1.0)  # four answers wait for a quarter of a step


def test_a_dear_row_says_little_of_several() -> None:
    costs = StepCosts()
    plain(costs, 10.0)
    for _ in range(20):
        costs.measured(1, 1, 16.0)
    assert costs.cost(1, 1) == pytest.approx(0.6, rel=0.05)
    assert costs.cost(1, 4) == pytest.approx(4 * FIRST_GUESS)  # until it is measured
    for _ in range(20):
        costs.measured(1, 4, 26.0)
    assert costs.cost(1, 4) == pytest.approx(1.6, rel=0.05)


def test_noise_hides_no_cost() -> None:
    costs, rng = StepCosts(), random.Random(1)
    for _ in range(300):
        slow = rng.choice((1.0, 1.0, 1.0, 1.0, 30.0)) * rng.uniform(0.9, 1.1)
        costs.measured(1, 0, 10 * rng.choice((1.0, 1.0, 1.0, 1.0, 30.0)))
        costs.measured(1, 5, 15 * slow)
    assert 0.0 < costs.cost(1, 5) < 3.0  # the truth is 0.5; stalls of both kinds count as far as LARGEST_JUMP lets them


def test_plain_steps_are_measured_before_drafts_and_again_later() -> None:
    costs = StepCosts()
    for _ in range(ENOUGH):
        assert costs.is_due(1)
        plain(costs, 10.0, n=1)
    assert not costs.is_due(1) and costs.is_due(2)
    for _ in range(STALE):
        assert not costs.is_due(1)
        costs.measured(1, 2, 12.0)
    assert costs.is_due(1)
    plain(costs, 10.0, n=1)
    assert not costs.is_due(1)
