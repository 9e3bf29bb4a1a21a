"""xtc, "exclude top choices": now and then drops all likely tokens but the least likely of them.

Source: llama.cpp b11434, src/llama-sampler.cpp (xtc); the idea is p-e-w's, text-generation-webui 2024.
"""

import numpy as np

from chenxing.sampling.candidates import SLACK, Candidates, probabilities


def xtc(candidates: Candidates, probability: float, threshold: float, uniform: float, min_keep: int = 0) -> Candidates:
    """If uniform (a random number in [0, 1)) is at most probability: of all tokens with a probability of at least
    threshold only the least likely stays. Off for probability <= 0 and for threshold > 0.5, which only one can reach.
    """
    if probability <= 0 or threshold > 0.5 or candidates.ids.size < 2 or uniform > probability:
        return candidates
    likely = np.flatnonzero(probabilities(candidates.logits) >= threshold * (1 - SLACK))
    if likely.size < 2 or candidates.ids.size - (likely.size - 1) < min_keep:
        return candidates
    among = candidates.logits[likely]
    least = likely[np.flatnonzero(among == among.min())[-1]]  # of equal ones that which a sort puts last
    kept = np.ones(candidates.ids.size, dtype=bool)
    kept[likely] = False
    kept[least] = True
    return candidates.at(kept, sorted=candidates.sorted)
