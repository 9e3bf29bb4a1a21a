"""Random numbers that depend on nothing but the seed and the position of the token.

A counter-based generator has no state: the number for a position is the same whatever was drawn before, in whichever
batch, after a preemption, with or without speculation. The generator is Philox4x64-10 (Salmon et al. 2011, "Parallel
random numbers: as easy as 1, 2, 3"). numpy has the same one; importing numpy.random costs 50 ms at every start, and one
number a token is all that is needed.
"""

import os

_MASK = (1 << 64) - 1
_MULTIPLIERS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B

RANDOM_SEEDS = -1, 0xFFFFFFFF  # the second is llama.cpp's unsigned spelling of the first


def philox4x64(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Ten rounds of Philox on four 64-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (b >> 64) ^ c1 ^ k0, b & _MASK, (a >> 64) ^ c3 ^ k1, a & _MASK
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def uniform(seed: int, stream: int, position: int) -> float:
    """A number in [0, 1) with 53 random bits. Streams of one seed are independent of each other."""
    return (philox4x64((position, 0, 0, 0), (seed, stream))[0] >> 11) * 2.0**-53


def actual_seed(seed: int) -> int:
    """The seed itself, or a random 32-bit one if it is one of RANDOM_SEEDS."""
    return seed if seed not in RANDOM_SEEDS else int.from_bytes(os.urandom(4), "little") % RANDOM_SEEDS[1]
