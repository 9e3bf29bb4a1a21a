"""What `logprobs` and `top_logprobs` report: of the raw distribution, or of the one that the chain leaves."""

import math
from dataclasses import dataclass

import numpy as np

from chenxing.sampling.candidates import descending, largest


@dataclass(frozen=True)
class TokenLogprobs:
    """The natural logarithm of a token's probability, -inf for 0, and the likeliest ids with theirs in `top`."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


def before_sampling(logits: np.ndarray, token: int, n_top: int) -> TokenLogprobs:
    """Of softmax(logits), the model's own distribution.  logits  f32[n_vocab]"""
    best = top_ids(logits, n_top)
    own, *others = logprobs(logits, np.concatenate([[token], best])).tolist()
    return TokenLogprobs(token, own, tuple(zip(best.tolist(), others, strict=True)))


def after_sampling(ids: np.ndarray, shares: np.ndarray, token: int, n_top: int) -> TokenLogprobs:
    """Of what Sampler.probabilities gave, the distribution that was drawn from; banned tokens are not among the top.

    ids i32[n], shares f32[n]. llama.cpp's post_sampling_probs are exp of these.
    """
    best = [at for at in descending(shares)[:n_top].tolist() if shares[at] > 0]
    own = float(shares[ids == token].sum())
    top = tuple((int(ids[at]), math.log(shares[at])) for at in best)
    return TokenLogprobs(token, math.log(own) if own > 0 else -math.inf, top)


def log_normaliser(logits: np.ndarray) -> float:
    """log(sum(exp(logits))) of f32[n]. The exponentials are f32, their sum f64: good to 2e-7 for any vocabulary."""
    top = logits.max()
    return float(top) + math.log(float(np.exp(logits - top).sum(dtype=np.float64)))


def logprobs(logits: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """log softmax(logits)[ids].  f32[n_vocab], int[m] -> f64[m]"""
    return logits[ids].astype(np.float64) - log_normaliser(logits)


def top_ids(logits: np.ndarray, n: int) -> np.ndarray:
    """The n likeliest ids, likeliest first, equal ones by id.  f32[n_vocab] -> i64[min(n, n_vocab)]"""
    return largest(logits, n)
