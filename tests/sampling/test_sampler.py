import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logit_rows import EVERY_TIME, ROWS, normal_row, row

from chenxing.errors import ChenxingError, UsageError
from chenxing.sampling import Sampler, SamplingParams

N_VOCAB = 60

PARAMS = st.builds(
    SamplingParams,
    seed=st.integers(0, 2**64 - 1),
    temp=st.sampled_from([0.0, 0.3, 0.8, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 5, 40]),
    top_p=st.sampled_from([0.0, 0.5, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 1.0]),
    typ_p=st.sampled_from([0.4, 1.0]),
    top_n_sigma=st.sampled_from([-1.0, 1.5]),
    xtc_probability=st.sampled_from([0.0, 0.5, 1.0]),
    dynatemp_range=st.sampled_from([0.0, 0.5]),
    penalty_repeat=st.sampled_from([1.0, 1.3]),
    penalty_freq=st.sampled_from([0.0, 0.5]),
    dry_multiplier=st.sampled_from([0.0, 0.8]),
    mirostat=st.sampled_from([0, 0, 0, 1, 2]),
    min_keep=st.sampled_from([0, 3]),
    samplers=st.permutations(SamplingParams().samplers),
)


def new(params: SamplingParams, n_vocab: int = N_VOCAB, **more: Any) -> Sampler:
    return Sampler(params, n_vocab, token_text=lambda token: b"%d " % token, **more)


def generate(sampler: Sampler, n: int, spread: float = 3.0) -> list[int]:
    """Tokens from rows that depend on the position only."""
    tokens = []
    for position in range(n):
        tokens.append(sampler.sample(normal_row(sampler.n_vocab, seed=position, spread=spread)))
        sampler.accept(tokens[-1])
    return tokens


@EVERY_TIME
@given(ROWS, PARAMS, st.lists(st.integers(0, 9), max_size=8))
def test_any_chain_leaves_a_distribution_and_samples_from_it(
    logits: np.ndarray, params: SamplingParams, prompt: list[int]
) -> None:
    prompt = [token % logits.size for token in prompt]
    sampler = new(params, logits.size, prompt=prompt)
    ids, shares = sampler.probabilities(logits)
    assert ids.dtype == np.int32 and shares.dtype == np.float32 and ids.size == shares.size > 0
    assert len(set(ids.tolist())) == ids.size
    assert abs(shares.sum(dtype=np.float64) - 1) < 1e-6  # 30 f32 numbers
    assert (logits[ids[shares > 0]] > -np.inf).all()
    token = sampler.sample(logits)
    assert shares[ids == token] > 0
    sampler.accept(token)


@EVERY_TIME
@given(ROWS, PARAMS, st.lists(st.integers(0, 9), max_size=8))
def test_greedy_is_what_the_whole_chain_would_take(
    logits: np.ndarray, params: SamplingParams, prompt: list[int]
) -> None:
    """A greedy chain leaves steps out; one with a temperature just above zero does not."""
    prompt = [token % logits.size for token in prompt]
    greedy = replace(params, temp=0.0, dynatemp_range=0.0, mirostat=0)
    almost = new(replace(greedy, temp=1.01e-6), logits.size, prompt=prompt)
    ids, shares = almost.probabilities(logits)
    if shares.max() == 1:  # else there are ties
        assert new(greedy, logits.size, prompt=prompt).sample(logits) == ids[shares.argmax()]


def test_greedy_takes_the_lowest_id_of_ties() -> None:
    for top_k in (0, 2):
        assert new(SamplingParams(temp=0.0, top_k=top_k), 4).sample(row(1, 5, 5, 5)) == 1


def test_the_same_seed_gives_the_same_text() -> None:
    params = SamplingParams(seed=11, temp=1.5, xtc_probability=0.5)
    first, second = generate(new(params), 50), generate(new(params), 50)
    assert first == second
    assert generate(new(replace(params, seed=12)), 50) != first


def test_a_text_does_not_depend_on_its_neighbours() -> None:
    """Three requests step by step in one loop, in changing order, as in a batch; and each of them alone."""
    all_params = [SamplingParams(seed=seed, temp=1.5, mirostat=mode) for seed, mode in ((1, 0), (1, 2), (2, 0))]
    together = [new(params) for params in all_params]
    tokens: list[list[int]] = [[], [], []]
    order = np.random.default_rng(0)
    for position in range(40):
        logits = normal_row(N_VOCAB, seed=position)
        for i in order.permutation(3):
            tokens[i].append(together[i].sample(logits))
            together[i].accept(tokens[i][-1])
    assert tokens == [generate(new(params), 40) for params in all_params]


def test_asking_changes_nothing() -> None:
    params = SamplingParams(seed=5, temp=1.5, xtc_probability=0.5, mirostat=0)
    for mirostat in (0, 1, 2):
        alone = generate(new(replace(params, mirostat=mirostat)), 30)
        asked = new(replace(params, mirostat=mirostat))
        for position, token in enumerate(alone):
            asked.sample(normal_row(N_VOCAB, seed=1000 + position))  # drafted, then rejected
            asked.probabilities(normal_row(N_VOCAB, seed=position))
            assert asked.sample(normal_row(N_VOCAB, seed=position)) == token
            asked.accept(token)


def test_a_text_resumes_from_its_tokens() -> None:
    """After a preemption a new sampler that has accepted the same tokens goes on as the old one would have."""
    params = SamplingParams(seed=5, temp=1.5, penalty_freq=0.3, dry_multiplier=0.5)
    whole = generate(new(params, prompt=[1, 2]), 30)
    resumed = new(params, prompt=[1, 2])
    for token in whole[:20]:
        resumed.accept(token)
    for position in range(20, 30):
        assert resumed.sample(normal_row(N_VOCAB, seed=position)) == whole[position]
        resumed.accept(whole[position])


def test_a_random_seed_is_reported_and_repeats_the_text() -> None:
    params = SamplingParams(temp=2.0)
    for spelling in (-1, 0xFFFFFFFF):
        first = new(replace(params, seed=spelling))
        assert 0 <= first.seed < 2**32 - 1
        assert generate(new(replace(params, seed=first.seed)), 40) == generate(first, 40)


# chi-square with 7 degrees of freedom: above 24.32 with a chance of 1 in 1,000
CRITICAL = 24.32


def chi_square(tokens: list[int], shares: np.ndarray) -> float:
    counts = np.bincount(tokens, minlength=shares.size)
    expected = shares * len(tokens)
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("temp", [0.7, 1.0, 1.6])
def test_samples_have_the_distribution(temp: float) -> None:
    """10,000 draws from eight tokens at a significance of 0.001, with a fixed seed. The same draws reject a temperature
    that is off by a tenth, so the test can fail.
    """
    logits = row(2.0, 1.5, 1.0, 0.5, 0.0, -0.5, -1.0, -1.5)
    sampler = new(SamplingParams(seed=2024, temp=temp, top_k=0, top_p=1.0, min_p=0.0), 8)
    tokens = []
    for _ in range(10_000):
        tokens.append(sampler.sample(logits))
        sampler.accept(tokens[-1])

    def exact(temperature: float) -> np.ndarray:
        weights = np.exp(logits.astype(np.float64) / temperature)
        return weights / weights.sum()

    assert chi_square(tokens, exact(temp)) < CRITICAL
    assert chi_square(tokens, exact(temp * 1.1)) > CRITICAL


def test_xtc_acts_with_its_probability() -> None:
    """3,000 draws, 0.3: three standard deviations are 75. Where it does not act, the choice among three equal tokens
    is as even as ever (chi-square, 2 degrees of freedom, 0.001): the two random numbers are independent.
    """
    sampler = new(SamplingParams(seed=3, samplers=["xtc"], xtc_probability=0.3, xtc_threshold=0.1), 3)
    untouched = []
    for _ in range(3000):
        if sampler.probabilities(row(1, 1, 1))[0].size == 3:
            untouched.append(sampler.sample(row(1, 1, 1)))
        sampler.accept(0)
    assert abs(len(untouched) - 2100) < 75
    assert chi_square(untouched, np.full(3, 1 / 3)) < 13.82


def test_penalties_look_back_on_prompt_and_answer() -> None:
    sampler = new(SamplingParams(temp=0.0, penalty_present=5.0, penalty_last_n=2), 3, prompt=[0, 1])
    logits = row(3, 2, 1)
    assert sampler.sample(logits) == 2
    sampler.accept(2)
    assert sampler.sample(logits) == 0


def test_logit_bias() -> None:
    sampler = new(SamplingParams(temp=0.0, logit_bias={1: 5.0, 0: -math.inf}), 3)
    ids, shares = new(SamplingParams(top_k=0, logit_bias={0: -math.inf}), 3).probabilities(row(3, 1, 2))
    assert sampler.sample(row(3, 1, 2)) == 1
    assert shares[ids == 0].sum() == 0
    with pytest.raises(UsageError, match="logit_bias: expected token ids from 0 to 2, found 3"):
        new(SamplingParams(logit_bias={3: 1.0}), 3)


def test_ignore_eos_bans_all_tokens_that_end() -> None:
    sampler = new(SamplingParams(temp=0.0, ignore_eos=True), 4, eog_ids={0, 2})
    assert sampler.sample(row(9, 1, 9, 2)) == 3
    assert new(SamplingParams(temp=0.0), 4, eog_ids={0, 2}).sample(row(9, 1, 9, 2)) == 0


def test_min_tokens_are_generated_before_an_end() -> None:
    sampler = new(SamplingParams(temp=0.0, min_tokens=2), 3, eog_ids=[0], prompt=[1, 1, 1])
    tokens = []
    for _ in range(3):
        tokens.append(sampler.sample(row(9, 1, 2)))
        sampler.accept(tokens[-1])
    assert tokens == [2, 2, 0] and sampler.n_generated == 3


def test_stop_tokens_end_an_answer_but_not_before_min_tokens() -> None:
    sampler = new(SamplingParams(temp=0.0, min_tokens=1), 4, eog_ids=[0], stop_ids=[3])
    assert sampler.sample(row(8, 1, 2, 9)) == 2
    sampler.accept(2)
    assert sampler.sample(row(8, 1, 2, 9)) == 3
    assert [sampler.ends(token) for token in range(4)] == [True, False, False, True]
    assert new(SamplingParams(temp=0.0, ignore_eos=True), 4, eog_ids=[0], stop_ids=[3]).sample(row(8, 1, 2, 7)) == 3
    with pytest.raises(UsageError, match="stop_token_ids: expected token ids from 0 to 3, found 4"):
        new(SamplingParams(), 4, stop_ids=[4])


@pytest.mark.parametrize("params", [SamplingParams(), SamplingParams(temp=0.0), SamplingParams(mirostat=2)])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_an_error(params: SamplingParams, bad: float) -> None:
    with pytest.raises(ChenxingError, match=r"logits: expected finite numbers, found (nan|inf)"):
        new(params, 3).sample(row(1, bad, 2))


def test_a_ban_on_everything_is_an_error() -> None:
    with pytest.raises(UsageError, match="expected a token that may be chosen, found none"):
        new(SamplingParams(logit_bias=dict.fromkeys(range(3), -math.inf)), 3).sample(row(1, 2, 3))


def test_mirostat_learns_nothing_from_a_token_of_elsewhere() -> None:
    params = SamplingParams(seed=1, mirostat=2, mirostat_tau=1.0, mirostat_eta=1.0)
    forced, free = new(params), new(params)
    forced.sample(normal_row(N_VOCAB, seed=0))
    ids, _ = forced.probabilities(normal_row(N_VOCAB, seed=0))
    outside = next(id for id in range(N_VOCAB) if id not in ids)
    forced.accept(outside)
    free.accept(outside)
    logits = normal_row(N_VOCAB, seed=1)
    assert forced.probabilities(logits)[0].tolist() == free.probabilities(logits)[0].tolist()


def test_the_row_is_only_read() -> None:
    logits = normal_row(N_VOCAB, seed=1)
    logits.flags.writeable = False
    params = SamplingParams(logit_bias={1: 1.0}, penalty_freq=1.0, dry_multiplier=1.0, top_n_sigma=1.0, min_tokens=1)
    new(params, eog_ids=[3], prompt=[1, 2, 1, 2, 1]).sample(logits)
