"""Speculative decoding: drafted tokens are verified as further rows of their answer's step, exactly.

How it is exact. A drafted token is one more row of the sequence; its logits are, to the bit, those of a step of its own
(laws L1, L2). From each row the request's own sampler chooses as it would have without a draft, with the same history,
grammar and random numbers; a drafted token that is the chosen one makes the next row valid, the first other one ends
the step. So the text is the one without speculation, token for token, sampled or greedy.

Leviathan 2023 accepts a drafted x with probability min(1, p(x) / q(x)) and keeps the distribution of the text, not the
text. For a draft that is certain of x, as these are (q(x) = 1), that is p(x): just how often the choice here is x. So
nothing is lost against rejection sampling with the same draft.

Sources  Leviathan 2023; Chen 2023 (speculative sampling); llama.cpp b11434, docs/speculative.md, for names.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from chenxing.engine.batch import Share
from chenxing.engine.request import Choice, Request
from chenxing.engine.speculation.adaptive import Adaptive, Verified
from chenxing.engine.speculation.drafter import Drafter
from chenxing.engine.speculation.options import N_MAX
from chenxing.engine.stats import NO_DRAFTS


class Policy(Protocol):
    """How long drafts are. See Adaptive."""

    def length(self, request: Request, kind: int, lengths: range, n_answers: int) -> int | None: ...
    def measured(self, step: Sequence[Verified], ms: float) -> None: ...
    def forget(self, request: Request) -> None: ...


class Speculation:
    """What drafts for an engine's answers, and how much. One thread, the engine's.

    n_max, n_min  tokens of a draft; a shorter one is not tried
    policy        decides within that; by what was measured if not given
    """

    def __init__(self, drafter: Drafter, n_max: int = N_MAX, n_min: int = 0, policy: Policy | None = None) -> None:
        assert n_min >= 0 and n_max > 0
        self._drafter, self._n_max, self._n_min = drafter, n_max, n_min
        self._policy: Policy = policy or Adaptive(drafter.prior)
        self._is_catching_up = False
        self.counts = NO_DRAFTS

    @property
    def name(self) -> str:
        """Its kind, as --spec-type spells it."""
        return self._drafter.name

    def length(self, share: Share, n_most: int, n_answers: int) -> int:
        """Rows that an answer's step is to have for its draft, of at most n_most; so many answers run."""
        request = share.request
        lengths = range(max(1, self._n_min), min(n_most, self._n_max) + 1)
        if not lengths or (kind := self._drafter.outlook(request)) is None:
            return 0
        share.kind = kind
        n = self._policy.length(request, kind, lengths, n_answers)
        if n == 0:
            request.stats.drafts = request.stats.drafts.skipped()
            self.counts = self.counts.skipped()
        return n or 0

    def draft(self, shares: Sequence[Share]) -> None:
        """Fill the rows that were planned for drafts, or leave them out."""
        planned = [share for share in shares if share.n_draft]
        drafts = self._drafter.draft([(share.request, share.n_draft) for share in planned]) if planned else []
        self._is_catching_up = None in drafts
        for share, draft in zip(planned, drafts, strict=True):
            tokens = share.request.permitted(draft or [])
            share.draft = tokens if len(tokens) >= self._n_min else []

    def measured(self, shares: Sequence[Share], choices: Mapping[Request, Choice], ms: float) -> None:
        """A step took ms."""
        answers = [(share, choices[share.request]) for share in shares if share.is_answer]
        for _, choice in answers:
            if choice.n_drafted:
                self.counts = self.counts.plus(choice.n_drafted, choice.n_accepted)
        if len(answers) == len(shares) and not self._is_catching_up:
            self._policy.measured([Verified(s.request, s.kind, c.n_drafted, c.n_accepted) for s, c in answers], ms)

    def forget(self, request: Request) -> None:
        """It has ended, or its tokens are others now."""
        self._drafter.forget(request)
        self._policy.forget(request)

    def close(self) -> None:
        self._drafter.close()
