"""Perplexity of a text under a model, figure for figure as llama-perplexity computes it.

The text's tokens are cut into chunks of n_ctx. Each chunk is evaluated alone, with BOS in place of its first token if
the model adds BOS, and only its second half is scored: those tokens are predicted from n_ctx/2 tokens or more.
Source: llama.cpp b11434, tools/perplexity/perplexity.cpp (perplexity, log_softmax).
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np

from chenxing.errors import ChenxingError, UnsupportedModelError
from chenxing.terminal.escapes import unescape_bytes

if TYPE_CHECKING:
    from chenxing.llm import LLM

_ROWS = 64  # logits that are exponentiated at a time, so that a large vocabulary needs no second copy of them


@dataclass(frozen=True)
class Perplexity:
    """exp of the mean negative log-likelihood of `n_scored` tokens, and that figure's standard error."""

    ppl: float
    error: float
    n_scored: int


class _Mean:
    """Running sums of negative log-likelihoods, in f64."""

    def __init__(self) -> None:
        self.n, self.total, self.total_squares = 0, 0.0, 0.0

    def add(self, nll: np.ndarray) -> None:
        self.n += len(nll)
        self.total += float(nll.sum())
        self.total_squares += float((nll * nll).sum())

    def perplexity(self) -> Perplexity:
        mean = self.total / self.n
        variance = max(self.total_squares / self.n - mean * mean, 0.0)
        ppl = math.exp(mean) if mean < 700 else math.inf
        return Perplexity(ppl, ppl * math.sqrt(variance / (self.n - 1)) if self.n > 1 else 0.0, self.n)


def read_text(path: str, *, escape: bool) -> bytes:
    """The bytes of `path` as llama-perplexity takes them: without the last line break, escapes read."""
    try:
        data = Path(path).expanduser().read_bytes().removesuffix(b"\n")
    except OSError as error:
        raise ChenxingError(f"{path}: {error.strerror}: expected a readable text file") from error
    return unescape_bytes(data) if escape else data


def perplexity(llm: "LLM", text: bytes, n_ctx: int, n_chunks: int | None, log: TextIO) -> Perplexity:
    """Perplexity of `text` over at most `n_chunks` chunks (None: all); running figures go to `log`.

    Raises ChenxingError if the text is shorter than two chunks, UnsupportedModelError if the model adds EOS.
    """
    tokenizer = llm.tokenizer
    if tokenizer.add_eos:
        raise UnsupportedModelError(f"{llm.path}: perplexity is not defined for a model that adds EOS to a text")
    ids = tokenizer.encode(text, add_special=True, parse_special=False)
    if len(ids) < 2 * n_ctx:
        raise ChenxingError(
            f"perplexity with a context of {n_ctx} needs {2 * n_ctx} tokens or more, the text has {len(ids)}: "
            "give a longer text or a smaller -c"
        )
    n_whole = len(ids) // n_ctx
    n_chunks = n_whole if n_chunks is None else min(n_chunks, n_whole)
    mean = _Mean()
    for i in range(n_chunks):
        chunk = ids[i * n_ctx : (i + 1) * n_ctx]
        if tokenizer.add_bos and tokenizer.bos_id is not None:
            chunk[0] = tokenizer.bos_id
        mean.add(_scored_half(llm, chunk))
        print(
            f"[{i + 1}/{n_chunks}]{mean.perplexity().ppl:.4f}",
            end="," if i + 1 < n_chunks else "\n",
            file=log,
            flush=True,
        )
    return mean.perplexity()


def _scored_half(llm: "LLM", chunk: list[int]) -> np.ndarray:
    """Negative log-likelihood of chunk[n_ctx/2 + 1:], each token given all before it  f64[n_ctx - n_ctx/2 - 1]."""
    first = len(chunk) // 2
    logits = llm.logits(chunk, first)  # f32[n_ctx - first, n_vocab]
    targets = np.asarray(chunk[first + 1 :])
    parts = [
        _negative_log_likelihood(logits[row : row + _ROWS][: len(targets) - row], targets[row : row + _ROWS])
        for row in range(0, len(targets), _ROWS)
    ]
    return np.concatenate(parts)


def _negative_log_likelihood(logits: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """logits  f32[n, n_vocab], targets  i64[n] -> f64[n]."""
    shifted = logits - logits.max(axis=1, keepdims=True)  # f32, as there
    log_sums = np.log(np.exp(shifted).sum(axis=1, dtype=np.float64))
    return log_sums - shifted[np.arange(len(targets)), targets]
