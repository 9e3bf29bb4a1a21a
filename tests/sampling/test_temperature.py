import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logit_rows import EVERY_TIME, ROWS, candidates_of, row

from chenxing.sampling.candidates import all_tokens, probabilities
from chenxing.sampling.temperature import dynamic_temp, temp


@EVERY_TIME
@given(ROWS, st.floats(0.05, 5))
def test_probabilities_to_the_power_of_the_inverse(logits: np.ndarray, temperature: float) -> None:
    found = probabilities(temp(all_tokens(logits), temperature).logits)
    expected = probabilities(logits).astype(np.float64) ** (1 / temperature)
    # f32 logits up to 30 are good to 2e-6, and dividing by 0.05 makes 20 times that
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-4)


@pytest.mark.parametrize("temperature", [0.0, -1.0, 1e-7])
def test_greedy_leaves_the_first_of_the_likeliest(temperature: float) -> None:
    left = temp(all_tokens(row(1, 3, 3)), temperature)
    assert left.logits.tolist() == [-math.inf, 3, -math.inf]


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([0.25, 0.25, 0.25, 0.25], 1.3),  # full entropy: the highest temperature
        ([1.0, 0.0, 0.0, 0.0], 0.3),  # none: the lowest
        ([0.5, 0.5, 0.0, 0.0], 0.3 + 1.0 * 0.5**2),  # half of the possible entropy
    ],
)
def test_dynamic_temperature_follows_entropy(shares: list[float], expected: float) -> None:
    start = candidates_of(shares)._replace(logits=candidates_of(shares).logits + np.float32(3))
    left = dynamic_temp(start, temperature=0.8, spread=0.5, exponent=2.0)
    assert left.logits[0] == pytest.approx(start.logits[0] / expected, rel=1e-5)


def test_the_lowest_dynamic_temperature_is_zero() -> None:
    assert dynamic_temp(candidates_of([1.0, 0.0]), 0.2, 0.5, 1.0).logits.tolist() == [0.0, -math.inf]


def test_without_a_spread_it_is_fixed_and_one_candidate_is_left_alone() -> None:
    start = candidates_of([0.6, 0.4])
    assert (dynamic_temp(start, 0.5, 0.0, 1.0).logits == temp(start, 0.5).logits).all()
    assert dynamic_temp(candidates_of([1.0]), 0.5, 0.4, 1.0).logits.tolist() == [0.0]
