import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from logit_rows import EVERY_TIME, ROWS, candidates_of

from chenxing.sampling.candidates import all_tokens, probabilities
from chenxing.sampling.typical import typ_p


@EVERY_TIME
@given(ROWS, st.floats(0, 0.99), st.integers(0, 5))
def test_the_most_typical_are_kept(logits: np.ndarray, p: float, min_keep: int) -> None:
    """Against the definition: surprise minus entropy, in f64."""
    left = typ_p(all_tokens(logits), p, min_keep)
    shares = probabilities(logits).astype(np.float64)
    surprise = np.full(logits.size, np.inf)
    surprise[shares > 0] = -np.log(shares[shares > 0])
    entropy = (shares[shares > 0] * surprise[shares > 0]).sum()
    distance = np.abs(surprise - entropy)
    dropped = np.setdiff1d(np.arange(logits.size), left.ids)
    # distances are differences of numbers up to 60 in f32
    assert dropped.size == 0 or distance[left.ids].max() <= distance[dropped].min() + 1e-4
    assert dropped.size == 0 or shares[left.ids].sum() > p - 1e-6
    assert left.ids.size <= max(min_keep, 1) or shares[left.ids[:-1]].sum() < p + 1e-5


def test_a_likeliest_token_that_surprises_too_little_goes() -> None:
    assert typ_p(candidates_of([0.4, 0.2, 0.2, 0.2]), 0.5).ids.tolist() == [1, 2, 3]


def test_reaching_p_is_not_enough() -> None:
    assert typ_p(candidates_of([0.25, 0.25, 0.25, 0.25]), 0.5).ids.size == 3


def test_banned_tokens_do_not_matter() -> None:
    assert typ_p(candidates_of([0.4, 0.2, 0.0, 0.2, 0.2]), 0.5).ids.tolist() == [1, 3, 4]


def test_off_at_one() -> None:
    start = candidates_of([0.5, 0.5])
    assert typ_p(start, 1.0) is start
