"""Mirostat 1 and 2: steer the surprise of the chosen tokens to a target. Basu et al. 2021.

They replace all other samplers but logit_bias and temperature. The state is one number, mu, the largest surprise
allowed; it starts at 2 tau. Surprise is in bits.
Source: llama.cpp b11434, src/llama-sampler.cpp (mirostat, mirostat-v2).
"""

import math

import numpy as np

from chenxing.sampling.candidates import Candidates, largest, probabilities

_N_ESTIMATE = 100  # the likeliest tokens from which version 1 estimates Zipf's exponent


def mirostat(candidates: Candidates, mu: float, n_vocab: int) -> Candidates:
    """Version 1: the k likeliest, k from mu and from the exponent s of a Zipf distribution fitted to the likeliest.

    Equations 30 and 8 of the paper; tokens that are banned are not part of the fit.
    """
    top = candidates.logits[largest(candidates.logits, _N_ESTIMATE)].astype(np.float64)
    top = top[top > -np.inf]
    if top.size < 2:
        return candidates.likeliest()
    rank = np.arange(1, top.size + 1)
    log_rank_ratio = np.log(rank[1:] / rank[:-1])
    s = float(log_rank_ratio @ (top[:-1] - top[1:]) / (log_rank_ratio @ log_rank_ratio))
    return candidates.at(largest(candidates.logits, _n_kept(s, mu, n_vocab)), sorted=True)


def _n_kept(s: float, mu: float, n_vocab: int) -> int:
    """k = ((s - 1) 2^mu / (1 - n_vocab^(1 - s)))^(1 / s), from 1 to n_vocab, also where the formula has no value."""
    epsilon = s - 1
    if abs(epsilon) < 1e-9:  # the limit at a Zipf exponent of one
        log_base = mu * math.log(2) - math.log(math.log(n_vocab))
    else:
        log_base = mu * math.log(2) + math.log(epsilon / -math.expm1(-epsilon * math.log(n_vocab)))
    log_k = log_base / s if s > 0 else math.copysign(math.inf, log_base)
    return int(min(max(math.exp(min(log_k, 50.0)), 1), n_vocab))


def mirostat_v2(candidates: Candidates, mu: float) -> Candidates:
    """Version 2: the tokens whose surprise is at most mu, the likeliest in any case. In the order they came."""
    kept = np.flatnonzero(probabilities(candidates.logits) >= 2.0**-mu)
    return candidates.at(kept, sorted=candidates.sorted) if kept.size else candidates.likeliest()


def next_mu(mu: float, tau: float, eta: float, probability: float) -> float:
    """mu after a token that was chosen with this probability: one step of size eta towards a surprise of tau."""
    return mu - eta * (-math.log2(probability) - tau)
