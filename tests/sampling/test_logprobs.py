import numpy as np
import pytest
from hypothesis import given
from logit_rows import EVERY_TIME, ROWS, normal_row, row

from chenxing.sampling import Sampler, SamplingParams, after_sampling, before_sampling, logprobs, top_ids


@EVERY_TIME
@given(ROWS)
def test_log_softmax(logits: np.ndarray) -> None:
    wide = logits.astype(np.longdouble)
    expected = wide - wide.max() - np.log(np.exp(wide - wide.max()).sum())
    found = logprobs(logits, np.arange(logits.size))
    assert found.dtype == np.float64
    # f32 exp() is good to 2e-7 and logits - max to 4e-6 of the few that matter
    np.testing.assert_allclose(found, expected.astype(np.float64), rtol=0, atol=1e-6)


def test_the_sum_over_a_large_vocabulary() -> None:
    """One token ten times as likely as each of 262,143 others. Summed one by one in f32 it would be off by 1e-3."""
    logits = np.full(262_144, np.float32(-2.3), dtype=np.float32)
    logits[0] = 0
    expected = -np.log(1 + 262_143 * np.exp(np.float64(np.float32(-2.3))))
    assert logprobs(logits, np.array([0]))[0] == pytest.approx(expected, abs=3e-7)  # one f32 exp()
    one_by_one = np.cumsum(np.exp(logits))[-1]
    assert abs(-np.log(one_by_one) - expected) > 1e-5


def test_huge_and_tiny_logits() -> None:
    found = logprobs(row(1e38, -1e38, 0), np.array([0, 2]))
    assert found[0] == 0 and found[1] == pytest.approx(-1e38)


def test_top_ids() -> None:
    assert top_ids(row(1, 3, 2, 3), 3).tolist() == [1, 3, 2]
    logits = normal_row(50_000, seed=1)
    assert (np.diff(logprobs(logits, top_ids(logits, 20))) <= 0).all()


def test_before_sampling() -> None:
    logits = normal_row(1000, seed=4)
    found = before_sampling(logits, 17, 3)
    assert (found.token, found.logprob) == (17, logprobs(logits, np.array([17]))[0])
    assert [token for token, _ in found.top] == top_ids(logits, 3).tolist()
    assert [value for _, value in found.top] == logprobs(logits, top_ids(logits, 3)).tolist()
    assert before_sampling(logits, 17, 0).top == ()


def test_after_sampling() -> None:
    sampler = Sampler(SamplingParams(top_k=2, top_p=1.0, min_p=0.0, temp=0.5, seed=1), 4)
    ids, shares = sampler.probabilities(row(1, 3, 2, 0))
    found = after_sampling(ids, shares, 2, 5)
    expected = np.log(np.exp([6.0, 4.0]) / np.exp([6.0, 4.0]).sum())  # logits by the temperature
    assert [token for token, _ in found.top] == [1, 2]
    np.testing.assert_allclose([value for _, value in found.top], expected, atol=1e-6)  # f32 probabilities
    assert found.logprob == found.top[1][1]
    assert after_sampling(ids, shares, 0, 1).logprob == -np.inf
