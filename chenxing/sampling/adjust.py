"""Samplers that add to the logits of single tokens: logit_bias and the repetition penalties.

Source: llama.cpp b11434, src/llama-sampler.cpp (logit-bias, penalties); Keskar et al. 2019 for penalty_repeat.
"""

import numpy as np

from chenxing.sampling.candidates import Candidates, positions


def logit_bias(candidates: Candidates, tokens: np.ndarray, biases: np.ndarray) -> Candidates:
    """Adds biases f32[m] (finite or -inf) to the logits of tokens int[m], distinct."""
    if tokens.size == 0:
        return candidates
    where, which = positions(candidates, tokens)
    logits = candidates.logits.copy()
    logits[where] += biases[which]
    return candidates._replace(logits=logits, sorted=False)


def penalties(
    candidates: Candidates, window: np.ndarray, repeat: float, frequency: float, presence: float
) -> Candidates:
    """Lowers the logits of the tokens in window int[m], the latest m tokens of prompt and answer.

    Logits are divided by repeat, negative ones multiplied; then frequency is subtracted for each occurrence and
    presence once. Off at 1, 0, 0.
    """
    if window.size == 0 or (repeat == 1 and frequency == 0 and presence == 0):
        return candidates
    tokens, counts = np.unique(window, return_counts=True)
    where, which = positions(candidates, tokens)
    logits = candidates.logits.copy()
    old = logits[where]
    logits[where] = np.where(old <= 0, old * repeat, old / repeat) - (counts[which] * frequency + presence)
    return candidates._replace(logits=logits, sorted=False)
