"""The reference's rotation: what RoPE and YaRN promise, whatever the numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest
from reference.hparams import Rope
from reference.rope import frequencies, rotate

PLAIN = Rope(n_rot=32, neox=False, freq_base=10000.0, freq_scale=1.0, yarn=False, n_ctx_orig=512, mscale=1.0)
YARN = replace(PLAIN, yarn=True, freq_scale=0.25)


@pytest.mark.parametrize("neox", [False, True])
def test_products_depend_on_distance_only(neox: bool) -> None:
    rope = replace(PLAIN, neox=neox)
    q, k = np.random.RandomState(1).standard_normal((2, 1, 32))
    rotated_q = rotate(np.broadcast_to(q, (40, 1, 32)), rope, None)[:, 0]
    rotated_k = rotate(np.broadcast_to(k, (40, 1, 32)), rope, None)[:, 0]
    products = rotated_q @ rotated_k.T
    for distance in (0, 1, 7):
        assert np.ptp(np.diagonal(products, -distance)) < 1e-12
    assert abs(products[0, 0] - np.vdot(q, k)) < 1e-12
    assert np.ptp(products[:, 0]) > 1.0


def test_pairs_are_neighbours_or_halves() -> None:
    x = np.random.RandomState(2).standard_normal((5, 3, 40))
    neighbours = rotate(x, PLAIN, None)
    order = [*range(0, 32, 2), *range(1, 32, 2), *range(32, 40)]  # neighbours laid out as halves
    assert np.array_equal(rotate(x[..., order], replace(PLAIN, neox=True), None), neighbours[..., order])
    assert np.array_equal(neighbours[..., 32:], x[..., 32:])


def test_first_pair_turns_a_radian_a_token() -> None:
    x = np.zeros((4, 1, 32))
    x[..., 0] = 1.0
    turned = rotate(x, PLAIN, None)[:, 0, :2]
    assert np.allclose(turned, [[math.cos(p), math.sin(p)] for p in range(4)], atol=1e-15)


def test_factors_divide() -> None:
    factors = np.linspace(1, 8, 16)
    assert np.allclose(frequencies(PLAIN, factors) * factors, frequencies(PLAIN, None), rtol=1e-15)


def test_yarn_keeps_fast_pairs_and_interpolates_slow_ones() -> None:
    kept, mixed = frequencies(PLAIN, None), frequencies(YARN, None)
    turns = kept * YARN.n_ctx_orig / (2 * math.pi)  # within the original context
    assert turns[0] > 32 > 1 > turns[-1]
    # the ramp's ends are rounded outwards to whole pairs
    assert np.array_equal(mixed[turns > 64], kept[turns > 64])
    assert np.allclose(mixed[turns < 0.5], 0.25 * kept[turns < 0.5], rtol=1e-15)
    between = (mixed / kept)[(turns < 16) & (turns > 2)]
    assert len(between) >= 2
    assert np.all(np.diff(between) < 0)
    assert np.all((between > 0.25) & (between < 1.0))


def test_magnitude_scales_the_rotated_part() -> None:
    x = np.random.RandomState(3).standard_normal((6, 1, 40))
    longer = rotate(x, replace(YARN, mscale=1.5), None)
    assert np.allclose(np.linalg.norm(longer[..., :32], axis=-1), 1.5 * np.linalg.norm(x[..., :32], axis=-1))
    assert np.array_equal(longer[..., 32:], x[..., 32:])
