"""How far one set of next-token logits is from another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BLOCK = 2**17  # logits at a time, or one row: float64 temporaries that stay in the processor's caches


@dataclass(frozen=True)
class Comparison:
    """Of a model against a reference, position by position.

    kl                  f64[n]      KL(reference || model) in nats
    log_prob_error      f64[n]      largest difference of any token's log-probability
    gaps                f64[m]      where the top tokens differ: by how many nats the reference prefers its own
    nll, reference_nll  f64[n - 1]  -log p of the token that really followed, of each text
    """

    kl: np.ndarray
    log_prob_error: np.ndarray
    gaps: np.ndarray
    nll: np.ndarray
    reference_nll: np.ndarray

    @property
    def perplexity(self) -> float:
        return float(np.exp(self.nll.mean()))

    @property
    def reference_perplexity(self) -> float:
        return float(np.exp(self.reference_nll.mean()))

    @property
    def top1_agreement(self) -> float:
        return 1.0 - len(self.gaps) / len(self.kl)


def compare(reference: np.ndarray, model: np.ndarray, ids: Sequence[int]) -> Comparison:
    """Both arrays [len(ids), n_vocab]: row i holds the logits of what follows ids[: i + 1]."""
    return compare_each(reference, [model], ids)[0]


def compare_each(reference: np.ndarray, models: Sequence[np.ndarray], ids: Sequence[int]) -> list[Comparison]:
    """Several models with one reference, whose probabilities are the larger part of the work."""
    for model in models:
        assert reference.shape == model.shape, (reference.shape, model.shape)
        assert len(ids) == len(model), (len(ids), len(model))
    n_rows = max(1, BLOCK // reference.shape[1])
    parts = []
    for i in range(0, len(reference), n_rows):
        rows, following = slice(i, i + n_rows), np.asarray(ids[i + 1 : i + 1 + n_rows])
        p, weight = _log_softmax(reference[rows])
        weight /= weight.sum(axis=1, keepdims=True)
        parts.append([_compare_rows(p, weight, log_softmax(model[rows]), following) for model in models])
    return [join(of_one) for of_one in zip(*parts, strict=True)]


def join(parts: Sequence[Comparison]) -> Comparison:
    """Of several texts: averages run over all their positions."""
    fields = ("kl", "log_prob_error", "gaps", "nll", "reference_nll")
    return Comparison(*(np.concatenate([getattr(part, field) for part in parts]) for field in fields))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log-probabilities f64[n, n_vocab]."""
    return _log_softmax(logits)[0]


def _log_softmax(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities, and what the probabilities are in proportion to; both f64[n, n_vocab]."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    e = np.exp(shifted)
    shifted -= np.log(e.sum(axis=1, keepdims=True))
    return shifted, e


def _compare_rows(p: np.ndarray, weight: np.ndarray, q: np.ndarray, following: np.ndarray) -> Comparison:
    """p, q: log-probabilities of reference and model; weight: e^p; following: the tokens after each row but the last"""
    rows = np.arange(len(p))
    best, chosen = p.argmax(axis=1), q.argmax(axis=1)
    followed = rows[: len(following)], following.astype(np.intp)  # nothing follows the last token of all
    difference = p - q
    return Comparison(
        kl=(weight * difference).sum(axis=1),
        log_prob_error=np.maximum(difference.max(axis=1), -difference.min(axis=1)),
        gaps=(p[rows, best] - p[rows, chosen])[best != chosen],
        nll=-q[followed],
        reference_nll=-p[followed],
    )
