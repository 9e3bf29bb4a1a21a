"""Log-probabilities of the raw distribution, before any sampler: what `logprobs` and `top_logprobs` report."""

import math

import numpy as np

from chenxing.sampling.candidates import largest


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
