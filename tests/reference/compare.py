"""How far one set of next-token logits is from another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

BLOCK = 2**20  # logits at a time: float64 temporaries of 8 MB, whatever the vocabulary


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
    assert reference.shape == model.shape, (reference.shape, model.shape)
    assert len(ids) == len(model), (len(ids), len(model))
    n_rows = max(1, BLOCK // model.shape[1])
    return join(
        [
            _compare_rows(reference[i : i + n_rows], model[i : i + n_rows], np.asarray(ids[i + 1 : i + 1 + n_rows]))
            for i in range(0, len(model), n_rows)
        ]
    )


def join(parts: Sequence[Comparison]) -> Comparison:
    """Of several texts: averages run over all their positions."""
    fields = ("kl", "log_prob_error", "gaps", "nll", "reference_nll")
    return Comparison(*(np.concatenate([getattr(part, field) for part in parts]) for field in fields))


def log_softmax(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities and probabilities, both f64[n, n_vocab]."""
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    e = np.exp(shifted)
    total = e.sum(axis=1, keepdims=True)
    return shifted - np.log(total), e / total


def _compare_rows(reference: np.ndarray, model: np.ndarray, following: np.ndarray) -> Comparison:
    p, weight = log_softmax(reference)
    q, _ = log_softmax(model)
    rows = np.arange(len(p))
    best, chosen = p.argmax(axis=1), q.argmax(axis=1)
    followed = rows[: len(following)], following.astype(np.intp)  # nothing follows the last token of all
    difference = p - q
    return Comparison(
        kl=(weight * difference).sum(axis=1),
        log_prob_error=np.abs(difference).max(axis=1),
        gaps=(p[rows, best] - p[rows, chosen])[best != chosen],
        nll=-q[followed],
        reference_nll=-p[followed],
    )
