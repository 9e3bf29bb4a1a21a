"""The yardsticks on distributions whose distances are known in closed form."""

import numpy as np
import pytest
from reference import compare as module
from reference.compare import compare, compare_each, join, log_softmax

P = np.array([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.34, 0.33, 0.33]])
Q = np.array([[0.25, 0.5, 0.25], [0.1, 0.8, 0.1], [0.33, 0.34, 0.33]])
IDS = [2, 0, 1]


def test_known_values() -> None:
    c = compare(np.log(P) + 7.0, np.log(Q) - 3.0, IDS)  # a constant does not matter to a softmax
    expected = [0.25 * np.log(2.0), 0.0, 0.34 * np.log(0.34 / 0.33) + 0.33 * np.log(0.33 / 0.34)]
    assert np.allclose(c.kl, expected, atol=1e-15)
    assert np.allclose(c.log_prob_error, [np.log(2.0), 0.0, np.log(0.34 / 0.33)])
    assert np.allclose(c.gaps, [np.log(2.0), np.log(0.34 / 0.33)])  # rows 0 and 2 choose another token
    assert c.top1_agreement == pytest.approx(1 / 3)
    assert c.perplexity == pytest.approx((0.25 * 0.8) ** -0.5)  # ids[1] after row 0, ids[2] after row 1
    assert c.reference_perplexity == pytest.approx((0.5 * 0.8) ** -0.5)


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    p, q = np.random.RandomState(1).standard_normal((2, 7, 5)).astype(np.float32)
    ids = [0, 1, 2, 3, 4, 3, 2]
    whole = compare(p, q, ids)
    monkeypatch.setattr(module, "BLOCK", 10)  # two rows at a time, then one
    parts = compare(p, q, ids)
    for field in ("kl", "log_prob_error", "gaps", "nll", "reference_nll"):
        assert np.array_equal(getattr(whole, field), getattr(parts, field)), field
    assert len(whole.nll) == 6


def test_each_of_several_models_is_compared_as_if_alone() -> None:
    p, q, r = np.random.RandomState(2).standard_normal((3, 4, 6))
    for model, found in zip((q, r), compare_each(p, [q, r], [5, 0, 1, 2]), strict=True):
        alone = compare(p, model, [5, 0, 1, 2])
        assert np.array_equal(found.kl, alone.kl) and np.array_equal(found.nll, alone.nll)
        assert np.allclose(alone.kl, (np.exp(log_softmax(p)) * (log_softmax(p) - log_softmax(model))).sum(axis=1))


def test_join_averages_over_positions() -> None:
    one, two = compare(np.log(P), np.log(Q), IDS), compare(np.log(P[:2]), np.log(P[:2]), IDS[:2])
    both = join([one, two])
    assert len(both.kl) == 5
    assert len(both.nll) == 3
    assert both.kl.mean() == pytest.approx(one.kl.sum() / 5)


def test_log_softmax_neither_overflows_nor_loses_small_ones() -> None:
    log_p = log_softmax(np.array([[1e4, 0.0], [-1e4, -1e4]], dtype=np.float32))
    assert np.array_equal(log_p[0], [0.0, -1e4])
    assert np.allclose(log_p[1], -np.log(2.0), atol=1e-12)
