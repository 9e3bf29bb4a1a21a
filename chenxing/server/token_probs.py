"""What is told of each token: its probability and its likeliest alternatives, in the forms of both protocols."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chenxing.sampling import Sampler
from chenxing.sampling.logprobs import logprobs, top_ids
from chenxing.tokenizer import Tokenizer


@dataclass(frozen=True)
class TokenProb:
    """value is a log-probability, or a probability after sampling; top has the likeliest tokens with theirs."""

    token: int
    value: float
    top: tuple[tuple[int, float], ...]


class ProbRecorder:
    """Observes a request in the engine's thread.

    n_top          alternatives to be told
    sampler        given: probabilities as the sampler left them, instead of the model's own log-probabilities
    """

    def __init__(self, n_top: int, sampler: Sampler | None = None) -> None:
        self._n_top, self._sampler = n_top, sampler
        self._pending: list[TokenProb] = []

    def observe(self, logits: np.ndarray, token: int) -> None:
        """A token was chosen from logits f32[n_vocab]."""
        self._pending.append(self._after_sampling(logits, token) if self._sampler else self._raw(logits, token))

    def take(self, n_tokens: int) -> tuple[TokenProb, ...]:
        """Of the tokens that joined the answer; one that ended it did not."""
        taken, self._pending = self._pending[:n_tokens], []
        return tuple(taken)

    def _raw(self, logits: np.ndarray, token: int) -> TokenProb:
        ids = top_ids(logits, self._n_top)
        values = logprobs(logits, np.append(ids, token))
        return TokenProb(token, float(values[-1]), _pairs(ids, values))

    def _after_sampling(self, logits: np.ndarray, token: int) -> TokenProb:
        assert self._sampler
        ids, shares = self._sampler.probabilities(logits)
        own = float(shares[ids == token].sum())
        order = np.argsort(-shares, kind="stable")[: self._n_top]
        order = order[shares[order] > 0]
        return TokenProb(token, own, _pairs(ids[order], shares[order]))


def _pairs(ids: np.ndarray, values: np.ndarray) -> tuple[tuple[int, float], ...]:
    return tuple((int(i), float(v)) for i, v in zip(ids, values, strict=False))


def content_form(
    probs: Sequence[TokenProb], tokenizer: Tokenizer, *, after_sampling: bool = False
) -> list[dict[str, Any]]:
    """The chat protocol's form, with llama-server's `id`: a list of tokens."""
    value, top = ("prob", "top_probs") if after_sampling else ("logprob", "top_logprobs")
    return [
        {
            **_described(p.token, tokenizer),
            value: p.value,
            top: [{**_described(token, tokenizer), value: v} for token, v in p.top],
        }
        for p in probs
    ]


def legacy_form(probs: Sequence[TokenProb], tokenizer: Tokenizer, offset: int) -> dict[str, Any]:
    """The completions protocol's form: parallel lists. offset: characters of the answer before these tokens."""
    texts = [_text(p.token, tokenizer) for p in probs]
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    return {
        "tokens": texts,
        "token_logprobs": [p.value for p in probs],
        "top_logprobs": [{_text(token, tokenizer): v for token, v in p.top} for p in probs],
        "text_offset": offsets,
    }


def _described(token: int, tokenizer: Tokenizer) -> dict[str, Any]:
    data = tokenizer.token_bytes(token)
    return {"id": token, "token": data.decode(errors="replace"), "bytes": list(data)}


def _text(token: int, tokenizer: Tokenizer) -> str:
    return tokenizer.token_bytes(token).decode(errors="replace")
