"""infill: for what stands between a prefix and a suffix, a few sure tokens or the end.

Source: llama.cpp b11434, src/llama-sampler.cpp (infill), include/llama.h (what it is for).
"""

from collections.abc import Callable, Collection

import numpy as np

from chenxing.sampling.candidates import Candidates, largest, probabilities

_MOST = 1000  # candidates that are looked at: comparing texts takes the square of their number
_SURE = 0.2


def infill(candidates: Candidates, eog_ids: Collection[int], token_text: Callable[[int], bytes]) -> Candidates:
    """Ends where ending is not far less likely than going on; else keeps tokens that are likely with all their kin.

    Tokens of which one's text begins with the other's are kin: the likelier one gets both probabilities. Of those below
    a fifth only ends are left, and if nothing else is, the answer ends. Probabilities are what decides here; the logits
    of what is kept stay as they were.
    """
    c = candidates.at(largest(candidates.logits, min(_MOST, candidates.ids.size)), sorted=True)
    shares = probabilities(c.logits).astype(np.float64)
    ends = np.array([int(token) in eog_ids for token in c.ids])
    if 3 * shares[ends].sum() * candidates.ids.size > shares[~ends].sum():
        return c.at(np.flatnonzero(ends), sorted=True)
    _combine(shares, [b"" if end else token_text(int(token)) for token, end in zip(c.ids, ends, strict=True)])
    kept = ends | (shares >= _SURE)
    n_texts = int((kept & ~ends).sum())
    if n_texts == 0:
        return _end(c, eog_ids)
    kept &= ends | (shares >= shares[kept].sum() / (n_texts + 1))
    return c.at(np.flatnonzero(kept), sorted=True)


def _combine(shares: np.ndarray, texts: list[bytes]) -> None:
    """Changes shares: of two that are kin, the smaller one goes to the larger one."""
    for i, text in enumerate(texts):
        for j, other in enumerate(texts):
            if not shares[i]:
                break
            if i != j and shares[j] and text and other.startswith(text):
                into, out = (j, i) if shares[j] > shares[i] else (i, j)
                shares[into] += shares[out]
                shares[out] = 0


def _end(candidates: Candidates, eog_ids: Collection[int]) -> Candidates:
    """One token that ends the answer; the likeliest one of a model that knows none."""
    if not eog_ids:
        return candidates.likeliest()
    return Candidates(np.array([min(eog_ids)], np.int32), np.zeros(1, np.float32), sorted=True)
