"""temperature, fixed or dynamic. Source: llama.cpp b11434, src/llama-sampler.cpp (temp, temp_ext)."""

import math

import numpy as np

from chenxing.sampling.candidates import Candidates, probabilities

# Logits of models are f32 numbers around 10, so differences below this are noise. Dividing by less could overflow.
GREEDY_BELOW = 1e-6


def temp(candidates: Candidates, temperature: float) -> Candidates:
    """Divides the logits. At 0 and below (and at less than GREEDY_BELOW) the likeliest token bans all others."""
    logits = candidates.logits
    if temperature >= GREEDY_BELOW:
        return candidates._replace(logits=logits / np.float32(temperature))
    best = int(logits.argmax())  # the first of equal ones
    only = np.full_like(logits, -np.inf)
    only[best] = logits[best]
    return candidates._replace(logits=only)


def dynamic_temp(candidates: Candidates, temperature: float, spread: float, exponent: float) -> Candidates:
    """Temperature between temperature - spread (not below 0) and temperature + spread, by the entropy's share of its
    possible maximum to the power of exponent. spread <= 0: the fixed temperature.
    """
    n = candidates.ids.size
    if spread <= 0:
        return temp(candidates, temperature)
    if n <= 1:
        return candidates
    shares = probabilities(candidates.logits)
    shares = shares[shares > 0]
    entropy = -float((shares * np.log(shares)).sum())
    low, high = max(0.0, temperature - spread), temperature + spread
    certainty = min(max(entropy / math.log(n), 0.0), 1.0)  # rounding can leave [0, 1]
    return temp(candidates, low + (high - low) * certainty**exponent)
