import numpy as np
import pytest

from chenxing.sampling.uniform import RANDOM_SEEDS, actual_seed, philox4x64, uniform


def test_known_answer() -> None:
    """The first row of Random123's kat_vectors for philox4x64-10."""
    expected = 0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B
    assert philox4x64((0, 0, 0, 0), (0, 0)) == expected


@pytest.mark.parametrize("seed", range(20))
def test_the_same_bits_as_numpy(seed: int) -> None:
    words = np.random.default_rng(seed).integers(1, 2**64, 6, dtype=np.uint64)
    c0, c1, c2, c3, k0, k1 = words.tolist()
    words[0] -= 1  # numpy counts up by one before it draws
    theirs = np.random.Philox(counter=words[:4], key=words[4:]).random_raw(4)
    assert philox4x64((c0, c1, c2, c3), (k0, k1)) == tuple(theirs.tolist())


def test_it_is_uniform() -> None:
    """Chi-square over 64 equal bins, 63 degrees of freedom: above 103.4 with a chance of 1 in 1,000. Fixed seed."""
    n = 20_000
    numbers = np.array([uniform(42, 0, position) for position in range(n)])
    assert numbers.min() >= 0 and numbers.max() < 1
    counts = np.bincount((numbers * 64).astype(int), minlength=64)
    assert ((counts - n / 64) ** 2 / (n / 64)).sum() < 103.4


@pytest.mark.parametrize("other", ["next position", "other stream", "other seed"])
def test_neighbours_are_independent(other: str) -> None:
    """Chi-square over 8 x 8 pairs, 63 degrees of freedom, as above."""
    n = 20_000
    first = np.array([uniform(7, 0, position) for position in range(n)])
    match other:
        case "next position":
            second = np.array([uniform(7, 0, position + 1) for position in range(n)])
        case "other stream":
            second = np.array([uniform(7, 1, position) for position in range(n)])
        case _:
            second = np.array([uniform(8, 0, position) for position in range(n)])
    counts = np.bincount((first * 8).astype(int) * 8 + (second * 8).astype(int), minlength=64)
    assert ((counts - n / 64) ** 2 / (n / 64)).sum() < 103.4


def test_the_largest_seed_is_a_seed() -> None:
    assert 0 <= uniform(2**64 - 1, 1, 5) < 1


def test_seeds() -> None:
    assert actual_seed(0) == 0 and actual_seed(2**64 - 1) == 2**64 - 1
    drawn = [actual_seed(seed) for seed in RANDOM_SEEDS * 4]
    assert all(0 <= seed < 2**32 - 1 for seed in drawn)
    assert len(set(drawn)) > 1  # eight equal ones have a chance of 2^-224
