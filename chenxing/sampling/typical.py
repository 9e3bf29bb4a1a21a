"""typ_p: keeps the tokens whose surprise is closest to the expected one. Meister et al. 2023, locally typical sampling.

Source: llama.cpp b11434, src/llama-sampler.cpp (typical).
"""

import numpy as np

from chenxing.sampling.candidates import SLACK, Candidates, shortest_prefix

_NO_SHARE = np.float32(-200)  # exp() of this is 0 in f32; 0 x -inf would be nan


def typ_p(candidates: Candidates, p: float, min_keep: int = 0) -> Candidates:
    """The fewest most typical tokens whose probabilities exceed p, most typical first; all of them for p >= 1.

    The likeliest token may be among those that go. Surprise is log(sum(exp)) - logit, and the entropy is its mean, so
    the distance of the two is that of the logit to the mean logit.
    """
    if p >= 1:
        return candidates
    below_max = candidates.logits - candidates.logits.max()
    shares = np.exp(below_max)
    total = float(shares.sum())
    mean = float((shares * np.maximum(below_max, _NO_SHARE)).sum()) / total
    closeness = -np.abs(below_max - np.float32(mean))
    # "exceed", not "reach": the slack goes the other way
    kept = shortest_prefix(closeness, shares, p * total * (1 + SLACK), min_keep)
    return candidates.at(kept, sorted=False)
