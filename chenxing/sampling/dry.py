"""dry, "don't repeat yourself": penalises the token that would prolong a repetition, more the longer it already is.

Source: llama.cpp b11434, src/llama-sampler.cpp (dry), after pi6am's version in koboldcpp and p-e-w's idea; the
algorithm here is another one. Breakers are compared as bytes of text, not as canonical token sequences: a breaker is
found however the tokens happen to split it, so at least wherever llama.cpp finds it.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from chenxing.sampling.candidates import Candidates, positions

_LOG_FLOAT_MAX = 88.7  # base ** exponent stays below the largest f32


class Breakers:
    """Texts that end a repetition, such as a line break.

    token_text  the bytes of a token; asked once for each token that occurs, so a large vocabulary costs nothing
    """

    def __init__(self, texts: Sequence[str], token_text: Callable[[int], bytes]) -> None:
        self._texts = [text.encode() for text in texts if text]
        self._token_text = token_text
        self._known: dict[int, tuple[bytes, bool, tuple[bytes, ...]]] = {}

    def contains(self, token: int) -> bool:
        """True if the token's text has a whole breaker in it: such a token is never penalised."""
        return self._token(token)[1]

    def n_since(self, window: np.ndarray, n_at_most: int) -> int:
        """Number of tokens after the last breaker in window int[m], whose end is now; n_at_most if that is not less."""
        for n_back in range(min(n_at_most, len(window))):
            n_after = self._n_after_breaker_at(window, len(window) - 1 - n_back)
            if n_after is not None:
                return n_after
        return n_at_most

    def _n_after_breaker_at(self, window: np.ndarray, at: int) -> int | None:
        """Number of tokens after the longest breaker that begins in the token at `at`; None if none does."""
        _, whole, rests = self._token(int(window[at]))
        ends = [at] if whole else []
        ends += [end for rest in rests if (end := self._end(window, at + 1, rest)) is not None]
        return len(window) - 1 - max(ends) if ends else None

    def _end(self, window: np.ndarray, at: int, rest: bytes) -> int | None:
        """Index of the token in which `rest` ends, if it is what stands at `at`."""
        for i in range(at, len(window)):
            text = self._token(int(window[i]))[0]
            if text.startswith(rest):
                return i
            if not rest.startswith(text):
                return None
            rest = rest[len(text) :]
        return None

    def _token(self, token: int) -> tuple[bytes, bool, tuple[bytes, ...]]:
        """The token's text, whether a whole breaker is in it, and what is missing of breakers that begin at its end."""
        if token not in self._known:
            text = self._token_text(token)
            whole = any(breaker in text for breaker in self._texts)
            cuts = [(breaker, n) for breaker in self._texts for n in range(1, len(breaker))]
            rests = tuple(breaker[n:] for breaker, n in cuts if text.endswith(breaker[:n]))
            self._known[token] = text, whole, rests
        return self._known[token]


def dry(
    candidates: Candidates,
    window: np.ndarray,
    breakers: Breakers,
    multiplier: float,
    base: float,
    allowed_length: int,
) -> Candidates:
    """Subtracts multiplier * base ** (length - allowed_length) from the token that would prolong a repetition.

    window  int[m], the latest m tokens; length is the number of last tokens that also stand somewhere before, counted
    back to the last breaker; repetitions shorter than allowed_length are let pass. Off for a multiplier of 0.
    """
    if multiplier == 0 or window.size <= allowed_length:
        return candidates
    n_exponents = int(_LOG_FLOAT_MAX / math.log(base)) if base > 1.000001 else window.size
    limit = breakers.n_since(window, min(window.size, allowed_length + n_exponents))
    if limit < allowed_length:
        return candidates
    tokens, lengths = _prolonging(window, allowed_length, limit)
    punished = np.array([not breakers.contains(int(token)) for token in tokens], dtype=bool)
    if not punished.any():
        return candidates
    where, which = positions(candidates, tokens[punished])
    penalty = multiplier * np.power(float(base), lengths[punished][which] - allowed_length)
    logits = candidates.logits.copy()
    logits[where] -= np.minimum(penalty, np.finfo(np.float32).max).astype(np.float32)
    return candidates._replace(logits=logits, sorted=False)


def _prolonging(window: np.ndarray, n_least: int, n_most: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct tokens that followed an earlier occurrence of the window's end, and the length of the longest such
    occurrence, from n_least to n_most.  int[m] -> int[t], f64[t]
    """
    lengths = _repeat_lengths(window, n_most)[:-1]
    ends = np.flatnonzero(lengths >= n_least)
    tokens, which = np.unique(window[ends + 1], return_inverse=True)
    longest = np.zeros(tokens.size)
    np.maximum.at(longest, which, lengths[ends])
    return tokens, longest


def _repeat_lengths(window: np.ndarray, n_most: int) -> np.ndarray:
    """For each position before the last: how many tokens up to it equal the window's last ones, n_most at most.

    int[m] -> i64[m]. All positions grow together, one token back at a time; the few that still match go on.
    """
    last = window.size - 1
    lengths = np.zeros(window.size, dtype=np.int64)
    at = np.flatnonzero(window[:last] == window[last])
    for n in range(1, n_most + 1):
        if at.size == 0:
            break
        lengths[at] = n
        at = at[at >= n]
        at = at[window[at - n] == window[last - n]]
    return lengths
