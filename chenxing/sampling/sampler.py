"""Sampler: chooses the tokens of one request."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from chenxing.errors import ChenxingError, UsageError
from chenxing.sampling.adjust import logit_bias
from chenxing.sampling.candidates import Candidates, all_tokens, pick, weights
from chenxing.sampling.chain import Step, build_chain, is_greedy
from chenxing.sampling.constraint import Constraint
from chenxing.sampling.history import History
from chenxing.sampling.mirostat import mirostat, mirostat_v2, next_mu
from chenxing.sampling.params import SamplingParams
from chenxing.sampling.temperature import temp
from chenxing.sampling.uniform import actual_seed, uniform

_CHOICE, _XTC = 0, 1  # independent streams of random numbers


class Sampler:
    """One request's chain, with its history.

    Only accept() moves on; sample() and probabilities() may be asked any number of times. The choice for a position
    depends on the parameters, the seed, the tokens before it and its logits, and on nothing else: not on the batch, not
    on a preemption, not on tokens that were drafted and rejected.

    params      as given; the attribute `seed` is the one really used, also where params.seed asks for a random one
    n_vocab     length of every row of logits
    token_text  the bytes of a token, for dry's breakers; needed where dry is on
    eog_ids     tokens that end a generation; ignore_eos and min_tokens ban them
    stop_ids    further tokens that end this one; min_tokens bans them too
    prompt      the tokens before the answer, which penalties and dry look back on
    constraint  the grammar that the answer follows; the sampler moves it on. Where it permits nothing but the end,
                ignore_eos and min_tokens give way

    Raises UsageError for a logit_bias or stop_ids outside of the vocabulary.
    """

    def __init__(
        self,
        params: SamplingParams,
        n_vocab: int,
        *,
        token_text: Callable[[int], bytes] | None = None,
        eog_ids: Iterable[int] = (),
        stop_ids: Iterable[int] = (),
        prompt: Sequence[int] = (),
        constraint: Constraint | None = None,
    ) -> None:
        self.params, self.n_vocab = params, n_vocab
        self.seed = actual_seed(params.seed)
        self.constraint = constraint
        self._history = History(prompt)
        self._mu = 2 * params.mirostat_tau
        self._latest: tuple[np.ndarray, np.ndarray] | None = None  # what mirostat's next accept() learns from
        eog_ids = frozenset(eog_ids)
        eog = np.array(sorted(eog_ids), dtype=np.int64)
        self._ends = frozenset(eog_ids) | _checked_ids("stop_token_ids", stop_ids, n_vocab)
        self._early_ends = np.array(sorted(self._ends), dtype=np.int64)
        self._bias = _bias_arrays(params, n_vocab, eog)
        self._greedy = is_greedy(params)
        self._steps = self._mirostat_steps() if params.mirostat else self._chain_steps(token_text, eog_ids)

    @property
    def n_generated(self) -> int:
        """Number of accepted tokens."""
        return self._history.n_generated

    @property
    def end_ids(self) -> frozenset[int]:
        """Tokens that end the answer and are no part of it."""
        return self._ends

    def accept(self, token_id: int) -> None:
        """Appends the token to the answer: one that sample() chose, or any other one that was decided on.

        Raises GrammarError for one that the constraint forbids.
        """
        assert 0 <= token_id < self.n_vocab, f"token {token_id} is not in the vocabulary of {self.n_vocab}"
        if self.params.mirostat and self._latest is not None:
            ids, shares = self._latest
            share = float(shares[ids == token_id].sum())
            if share > 0:  # a token from elsewhere says nothing about mu
                p = self.params
                self._mu = next_mu(self._mu, p.mirostat_tau, p.mirostat_eta, share / float(shares.sum()))
            self._latest = None
        if self.constraint:
            self.constraint.accept(token_id)
            self.constraint.prepare()  # while the model computes the next logits
        self._history.append(token_id)

    def sample(self, logits: np.ndarray) -> int:
        """The token for the next position.  logits  f32[n_vocab], read only.

        Raises UsageError if logit_bias leaves no token, GrammarError if the grammar has become too expensive to
        follow, ChenxingError if the logits are not numbers.
        """
        candidates = self._after_chain(logits)
        if self._greedy:
            return int(candidates.ids[0])
        shares = weights(candidates.logits)
        self._remember(candidates.ids, shares)
        return int(candidates.ids[pick(shares, uniform(self.seed, _CHOICE, self.n_generated))])

    def n_permitted(self, tokens: Sequence[int]) -> int:
        """How many of these tokens, in this order, the grammar lets come next. Moves nothing on."""
        return self.constraint.n_permitted(tokens) if self.constraint else len(tokens)

    def probabilities(self, logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The distribution that sample() draws from: ids i32[n] and probabilities f32[n], in the order of the chain.

        Sorted, likeliest first, after top_k or top_p; banned tokens may stand among them with 0. Raises as sample().
        """
        candidates = self._after_chain(logits)
        shares = weights(candidates.logits)
        self._remember(candidates.ids, shares)
        return candidates.ids, shares / shares.sum()

    def _after_chain(self, logits: np.ndarray) -> Candidates:
        assert logits.shape == (self.n_vocab,) and logits.dtype == np.float32, f"{logits.dtype}{logits.shape}"
        candidates = self._permitted(logits)
        if not math.isfinite(candidates.logits.max()):
            raise _nothing_to_choose(logits)
        for step in self._steps:
            candidates = step(candidates)
        return candidates.likeliest() if self._greedy else candidates

    def _permitted(self, logits: np.ndarray) -> Candidates:
        """All tokens, those banned that grammar, logit_bias, ignore_eos and min_tokens forbid."""
        if self.constraint:
            logits = logits.copy()
            self.constraint.apply(logits)
            if self.constraint.is_finished:
                return all_tokens(logits)
        candidates = logit_bias(all_tokens(logits), *self._bias)
        if self.n_generated < self.params.min_tokens:
            bans = np.full(self._early_ends.size, -np.inf, dtype=np.float32)
            candidates = logit_bias(candidates, self._early_ends, bans)
        return candidates

    def _chain_steps(self, token_text: Callable[[int], bytes] | None, eog_ids: frozenset[int]) -> list[Step]:
        def xtc_uniform() -> float:
            return uniform(self.seed, _XTC, self.n_generated)

        return build_chain(self.params, self._history, token_text, xtc_uniform, eog_ids)

    def _mirostat_steps(self) -> list[Step]:
        p = self.params
        if self._greedy:
            return []
        if p.mirostat == 1:
            return [lambda c: temp(c, p.temp), lambda c: mirostat(c, self._mu, self.n_vocab)]
        return [lambda c: temp(c, p.temp), lambda c: mirostat_v2(c, self._mu)]

    def _remember(self, ids: np.ndarray, shares: np.ndarray) -> None:
        if self.params.mirostat:
            self._latest = ids, shares


def _bias_arrays(params: SamplingParams, n_vocab: int, eog: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Token ids i64[m] and their biases f32[m]."""
    biases = dict(params.logit_bias)
    if params.ignore_eos:
        biases |= dict.fromkeys(eog.tolist(), -math.inf)
    for token in biases:
        if token >= n_vocab:
            raise UsageError(f"logit_bias: expected token ids from 0 to {n_vocab - 1}, found {token}")
    return np.array(list(biases), dtype=np.int64), np.array(list(biases.values()), dtype=np.float32)


def _checked_ids(name: str, ids: Iterable[int], n_vocab: int) -> frozenset[int]:
    given = list(ids)
    for token in given:
        if not isinstance(token, int) or isinstance(token, bool) or not 0 <= token < n_vocab:
            raise UsageError(f"{name}: expected token ids from 0 to {n_vocab - 1}, found {token!r}")
    return frozenset(given)


def _nothing_to_choose(logits: np.ndarray) -> ChenxingError:
    top = float(logits.max())
    if math.isfinite(top):
        given = "grammar, logit_bias, ignore_eos, min_tokens"
        return UsageError(f"{given}: expected a token that may be chosen, found none")
    return ChenxingError(f"logits: expected finite numbers, found {top}; the model file may be damaged")
