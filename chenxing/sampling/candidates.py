"""The tokens that a sampler may still choose from, and the few operations that all samplers share.

Every sampler is a pure function from Candidates to Candidates. Nothing here writes into the arrays that it is given.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

# Sums of probabilities that come from f32 logits are known to a few parts in 10^7. Bounds such as top_p are compared
# with this slack, so that 0.4 + 0.3 reaches 0.7 on every machine, whatever the last bit of its exp().
SLACK = 1e-6

_LONG_ROW, _BLOCK = 4096, 256


class Candidates(NamedTuple):
    """Tokens with their logits, in an order that later samplers keep.

    ids     i32[n], distinct
    logits  f32[n], finite or -inf; at least one is finite
    sorted  logits descend, equal ones by ascending position before sorting (so by ascending id)
    """

    ids: np.ndarray
    logits: np.ndarray
    sorted: bool = False

    def at(self, positions: np.ndarray | slice, *, sorted: bool) -> "Candidates":
        """The candidates at these positions, in this order."""
        return Candidates(self.ids[positions], self.logits[positions], sorted)

    def likeliest(self) -> "Candidates":
        """One candidate: the likeliest, the first of equal ones."""
        best = int(self.logits.argmax())
        return self.at(slice(best, best + 1), sorted=True)


def all_tokens(logits: np.ndarray) -> Candidates:
    """The whole vocabulary. logits  f32[n_vocab], shared, not copied."""
    return Candidates(_ids(logits.size), logits)


@lru_cache(maxsize=8)
def _ids(n_vocab: int) -> np.ndarray:
    ids = np.arange(n_vocab, dtype=np.int32)
    ids.flags.writeable = False
    return ids


def weights(logits: np.ndarray) -> np.ndarray:
    """exp(logits - max): the probabilities before division by their sum.  f32[n] -> f32[n]"""
    shares = logits - logits.max()
    return np.exp(shares, out=shares)


def probabilities(logits: np.ndarray) -> np.ndarray:
    """softmax.  f32[n] -> f32[n]"""
    shares = weights(logits)
    return shares / shares.sum()


def largest(values: np.ndarray, k: int) -> np.ndarray:
    """Positions of the k largest values, descending, equal ones by ascending position.  f32[n] -> i64[min(k, n)]

    One pass for a lower bound of the k-th largest value, one to find what reaches it, then a sort of little more than
    k values: 0.1 ms for k = 40 of 151,936, where argpartition takes 0.5 ms and a sort 10 ms.
    """
    bound = _kth_at_least(values, k)
    reach = np.flatnonzero(values >= bound if bound > -np.inf else values > -np.inf)
    order = reach[descending(values[reach])[:k]]
    n_missing = min(k, values.size) - order.size
    if n_missing > 0:  # the first banned ones fill up; fewer than k are not banned, so the first k hold enough of them
        order = np.concatenate([order, np.flatnonzero(values[:k] == -np.inf)[:n_missing]])
    return order


def descending(values: np.ndarray) -> np.ndarray:
    """Positions of all values, descending, equal ones by ascending position.  f32[n] -> i64[n]

    numpy sorts numbers with SIMD, positions only one by one. So value and position are packed into one number: 3 ms for
    151,936 of them, where a stable argsort takes 15.
    """
    bits = (values + np.float32(0)).view(np.int32)  # -0 becomes 0, whose bits those of an equal value must be
    ascending = bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))  # negative numbers count backwards
    packed = (~ascending).astype(np.int64) << 32
    packed |= np.arange(values.size)
    packed.sort()
    return packed & 0xFFFFFFFF


def _kth_at_least(values: np.ndarray, k: int) -> float:
    """A number that at least k of the values reach, and that few others do; -inf if there are not more than k."""
    if k >= values.size:
        return -np.inf
    # The maxima of k or more disjoint columns are k or more different elements, so the k-th largest maximum will do.
    # Eight times as many columns as k: then hardly two of the k largest share a column, and the bound is tight.
    n_columns = max(1024, 8 * k)
    n_rows = values.size // n_columns
    if n_rows < 4:
        return float(np.partition(values, -k)[-k])
    maxima = values[: n_rows * n_columns].reshape(n_rows, n_columns).max(axis=0)
    return float(np.partition(maxima, -k)[-k])


def shortest_prefix(order_by: np.ndarray, shares: np.ndarray, mass: float, n_least: int) -> np.ndarray:
    """The positions, by descending order_by, whose shares first add up to mass; n_least of them or more.

    order_by, shares  f32[n]; shares >= 0. Sorts no more than it needs: the mass usually sits in a few hundred tokens.
    """
    n_looked_at = max(256, n_least)
    while True:
        order = largest(order_by, n_looked_at)
        reached = np.cumsum(shares[order], dtype=np.float64)
        if reached[-1] >= mass or order.size == order_by.size:
            return order[: max(int(np.searchsorted(reached, mass)) + 1, n_least)]
        n_looked_at *= 8


def positions(candidates: Candidates, tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray | slice]:
    """Where the candidates hold these tokens: (where, which) with candidates.ids[where] == tokens[which].

    tokens  int[m], distinct. Tokens that are no longer candidates are left out.
    """
    ids = candidates.ids
    if tokens.size == 0 or (tokens.max() < ids.size and np.array_equal(ids[tokens], tokens)):
        return tokens, slice(None)  # the whole vocabulary in its own order, as in all usual chains
    _, where, which = np.intersect1d(ids, tokens, assume_unique=True, return_indices=True)
    return where, which


def pick(shares: np.ndarray, uniform: float) -> int:
    """The position that a uniform number in [0, 1) selects from shares f32[n] >= 0, which need not add up to one.

    Never one whose share is zero. A long row is summed in blocks first, then only one block is walked.
    """
    if shares.size <= _LONG_ROW:
        return _walk(shares, uniform * float(shares.sum(dtype=np.float64)))
    sums = np.add.reduceat(shares, np.arange(0, shares.size, _BLOCK)).astype(np.float64)
    goal = uniform * float(sums.sum())
    block = _walk(sums, goal)
    return block * _BLOCK + _walk(shares[block * _BLOCK : (block + 1) * _BLOCK], goal - float(sums[:block].sum()))


def _walk(shares: np.ndarray, goal: float) -> int:
    """The position at which the running sum first exceeds the goal."""
    at = int(np.searchsorted(np.cumsum(shares, dtype=np.float64), goal, side="right"))
    # only rounding can push the goal to the very end
    return at if at < shares.size else int(np.flatnonzero(shares)[-1])
