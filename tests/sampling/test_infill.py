"""infill, case by case after its description in llama.h."""

import numpy as np
from logit_rows import candidates_of

from chenxing.sampling import Sampler, SamplingParams
from chenxing.sampling.infill import infill

TEXTS = {0: b"<end>", 1: b"h", 2: b"hel", 3: b"world", 4: b"x", 5: b"hello", 6: b"y"}


def left(shares: list[float], ends: set[int] = frozenset({0})) -> list[int]:
    return sorted(infill(candidates_of(shares), ends, TEXTS.__getitem__).ids.tolist())


def test_it_ends_where_going_on_is_not_far_likelier():
    assert left([0.1, 0.6, 0.0, 0.3]) == [0]  # 3 * 0.1 * 4 tokens > 0.9
    assert left([0.02, 0.5, 0.0, 0.48]) == [0, 1, 3]  # 0.24 < 0.98: the end stays among those that are left


def test_kin_are_counted_together_under_the_likelier_one():
    # alone none of the three reaches a fifth; together they are the likeliest
    assert left([0.001, 0.13, 0.17, 0.519, 0.0, 0.18]) == [0, 3, 5]
    assert left([0.001, 0.18, 0.17, 0.519, 0.0, 0.13]) == [0, 1, 3]


def test_what_is_unsure_goes():
    assert left([0.0001, 0.15, 0.0, 0.8499], ends=frozenset({0})) == [0, 3]
    # of three above a fifth one is below a quarter of what is left
    assert left([0.0001, 0.4, 0.0, 0.2, 0.3999]) == [0, 1, 4]


def test_nothing_sure_is_the_end():
    shares = [1e-6, *[(1 - 1e-6) / 6] * 6]
    texts = {i: bytes([64 + i]) for i in range(7)}
    ended = infill(candidates_of(shares), {0}, texts.__getitem__)
    assert ended.ids.tolist() == [0]
    assert infill(candidates_of(shares), set(), texts.__getitem__).ids.size == 1


def test_logits_stay_as_they_were():
    start = candidates_of([0.001, 0.13, 0.17, 0.519, 0.0, 0.18])
    kept = infill(start, {0}, TEXTS.__getitem__)
    assert np.array_equal(kept.logits, start.logits[kept.ids])


def test_a_whole_vocabulary_takes_no_square_of_its_size():
    n = 150_000
    logits = np.zeros(n, np.float32)
    logits[7] = 20
    texts = Sampler(
        SamplingParams(samplers=["infill"], seed=1), n, token_text=lambda i: b"%d" % i, eog_ids=[0]
    ).probabilities(logits)
    assert texts[0].tolist() == [7, 0]


def test_its_place_in_the_chain():
    params = SamplingParams(samplers=["top_k", "top_p", "infill"], top_k=40, top_p=0.9, seed=1)
    assert params.samplers == ("top_k", "top_p", "infill")
    sampler = Sampler(params, 7, token_text=TEXTS.__getitem__, eog_ids=[0])
    ids, _ = sampler.probabilities(np.log(np.array([0.001, 0.13, 0.17, 0.519, 1e-9, 0.18, 1e-9], np.float32)))
    assert sorted(ids.tolist()) == [3, 5]  # the end is no part of the likeliest nine tenths
