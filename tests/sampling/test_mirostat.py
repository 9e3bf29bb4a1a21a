import math

import numpy as np
import pytest
from logit_rows import normal_row, row

from chenxing.sampling import Sampler, SamplingParams
from chenxing.sampling.candidates import all_tokens, probabilities
from chenxing.sampling.mirostat import _n_kept, mirostat, mirostat_v2, next_mu


def zipf(n: int, exponent: float) -> np.ndarray:
    return (-exponent * np.log(np.arange(1, n + 1))).astype(np.float32)


@pytest.mark.parametrize("exponent", [0.7, 1.3, 2.0])
@pytest.mark.parametrize("mu", [3.0, 6.0])
def test_version_1_keeps_what_its_formula_says_for_a_zipf_distribution(exponent: float, mu: float) -> None:
    n = 1000
    epsilon = exponent - 1
    k = ((epsilon * 2**mu) / (1 - n**-epsilon)) ** (1 / exponent)
    assert abs(mirostat(all_tokens(zipf(n, exponent)), mu, n).ids.size - k) <= 1


def test_version_1_has_a_limit_at_an_exponent_of_one() -> None:
    n = 1000
    expected = 2**5.0 / math.log(n)
    assert abs(mirostat(all_tokens(zipf(n, 1.0)), 5.0, n).ids.size - expected) <= 1
    # f32 logits do not fit one exactly
    assert _n_kept(1.0, 5.0, n) == _n_kept(1 + 1e-7, 5.0, n) == _n_kept(1 - 1e-7, 5.0, n) == int(expected)


@pytest.mark.parametrize("mu", [-50.0, 0.0, 10.0, 1e4])
@pytest.mark.parametrize("logits", [row(*[1.0] * 50), row(5), row(1, -np.inf, -np.inf), zipf(200, 40), zipf(200, 1e-3)])
def test_version_1_always_keeps_some_token(logits: np.ndarray, mu: float) -> None:
    left = mirostat(all_tokens(logits), mu, logits.size)
    assert 1 <= left.ids.size <= logits.size and left.logits[0] == logits.max()


def test_a_flat_row_and_a_large_mu_keep_everything() -> None:
    """A Zipf exponent near zero asks for more tokens than there are; llama.cpp overflows to one token here."""
    assert mirostat(all_tokens(normal_row(96, seed=0, spread=0.3)), 10.0, 96).ids.size == 96


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0, 6.0])
def test_version_2_keeps_what_surprises_at_most_mu(mu: float) -> None:
    logits = normal_row(60, seed=2)
    left = mirostat_v2(all_tokens(logits), mu)
    surprise = -np.log2(probabilities(logits))
    expected = np.flatnonzero(surprise <= mu)
    assert left.ids.tolist() == (expected.tolist() or [int(logits.argmax())])


def test_mu_follows_the_surprise() -> None:
    assert next_mu(10.0, tau=3.0, eta=0.1, probability=0.25) == pytest.approx(10.1)
    assert next_mu(10.0, tau=3.0, eta=0.1, probability=2**-5) == pytest.approx(9.8)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("tau", [2.0, 4.0])
def test_the_mean_surprise_settles_at_tau(version: int, tau: float) -> None:
    """800 tokens from random rows; the first 200 are for settling. Fixed seed."""
    n = 500
    sampler = Sampler(SamplingParams(seed=3, mirostat=version, mirostat_tau=tau, temp=1.0), n)
    total = 0.0
    for position in range(800):
        logits = np.random.default_rng(position).permutation(zipf(n, 1.1))
        ids, shares = sampler.probabilities(logits)
        token = sampler.sample(logits)
        if position >= 200:
            total -= math.log2(float(shares[ids == token][0]))
        sampler.accept(token)
    # sum of errors = (mu at the end - mu at the start) / eta, and mu moves within a few bits
    assert total / 600 == pytest.approx(tau, abs=0.05)
