"""Samplers that drop improbable tokens: top_k, top_p, min_p, top_n_sigma.

All of them keep the likeliest token. Source: llama.cpp b11434, src/llama-sampler.cpp; the papers are named below.
"""

import math

import numpy as np

from chenxing.sampling.candidates import SLACK, Candidates, descending, largest, shortest_prefix, weights


def top_k(candidates: Candidates, k: int) -> Candidates:
    """The k likeliest, sorted; all of them, as they are, for k <= 0. Fan et al. 2018."""
    if k <= 0:
        return candidates
    if candidates.sorted:
        return candidates.at(slice(0, k), sorted=True)
    return candidates.at(largest(candidates.logits, k), sorted=True)


def top_p(candidates: Candidates, p: float, min_keep: int = 0) -> Candidates:
    """The fewest likeliest whose probabilities reach p, sorted; all of them for p >= 1. Holtzman et al. 2020."""
    if p >= 1:
        return candidates
    shares = weights(candidates.logits)
    mass = p * float(shares.sum()) * (1 - SLACK)
    if candidates.sorted:
        n_kept = int(np.searchsorted(np.cumsum(shares, dtype=np.float64), mass)) + 1
        return candidates.at(slice(0, max(n_kept, min_keep)), sorted=True)
    return candidates.at(shortest_prefix(candidates.logits, shares, mass, min_keep), sorted=True)


def min_p(candidates: Candidates, p: float, min_keep: int = 0) -> Candidates:
    """Those at least p times as likely as the likeliest, in their order; all of them for p <= 0. Nguyen et al. 2024."""
    if p <= 0:
        return candidates
    # at p > 1 not even the likeliest would pass; it stays
    bound = candidates.logits.max() + np.float32(min(math.log(p), 0.0))
    kept = np.flatnonzero(candidates.logits >= bound)
    if kept.size < min(min_keep, candidates.ids.size):
        return candidates.at(largest(candidates.logits, min_keep), sorted=True)
    return candidates.at(kept, sorted=candidates.sorted)


def top_p_then_min_p(candidates: Candidates, top: float, least: float) -> Candidates:
    """top_p, then min_p, for 0 < least < 1, sorted: the same as one after the other.

    Both keep a prefix of the sorted tokens, so the shorter one is the result; and min_p's takes no sum to be found.
    """
    shares = weights(candidates.logits)
    mass = top * float(shares.sum()) * (1 - SLACK)
    kept = np.flatnonzero(candidates.logits >= candidates.logits.max() + np.float32(math.log(least)))
    order = kept if candidates.sorted else kept[descending(candidates.logits[kept])]
    n_kept = int(np.searchsorted(np.cumsum(shares[order], dtype=np.float64), mass)) + 1
    return candidates.at(order[:n_kept], sorted=True)


def top_n_sigma(candidates: Candidates, n: float) -> Candidates:
    """Bans logits further than n standard deviations below the largest; no effect for n <= 0. Tang et al. 2024.

    Banned tokens stay candidates with a logit of -inf. Tokens that were banned before do not count in the deviation.
    """
    logits = candidates.logits
    if n <= 0 or logits.size <= 1:
        return candidates
    finite = logits if logits.min() > -np.inf else logits[logits > -np.inf]
    deviations = finite - finite.mean()
    variance = float(np.square(deviations, out=deviations).mean())
    bound = finite.max() - np.float32(n * math.sqrt(variance))
    return candidates._replace(logits=np.where(logits >= bound, logits, np.float32(-np.inf)))
