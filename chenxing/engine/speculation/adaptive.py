"""How long drafts are: as many tokens as gain the most time, and none where they would lose it.

A draft of n tokens, each right with probability p, brings p + p^2 + ... + p^n tokens more in its step, which takes
longer by what n rows cost. Both are learnt. Beyond that an answer never risks more than it has: it starts with START
tokens, has EARNED more for each of its own, and drafts add what they gained less what they cost. So, as far as time can
be measured, speculation makes no answer of n tokens slower than n + START + EARNED * n plain steps. Where drafts do not
pay they are off, but for a short one whenever enough was earned to pay for it.

Source  Leviathan 2023, section 3.5 (the best length, given acceptance and cost).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from chenxing.engine.request import Request
from chenxing.engine.speculation.acceptance import Acceptance
from chenxing.engine.speculation.step_costs import StepCosts

START, EARNED = 1.5, 0.01  # tokens that an answer may lose
RICHEST = 8.0  # what was gained beyond that is not there to be lost again


@dataclass(frozen=True)
class Verified:
    """What became of one answer's draft in a step; both counts are 0 if it had none."""

    request: Request
    kind: int
    n_drafted: int
    n_accepted: int


@dataclass
class Account:
    """tokens that an answer may lose, and for_trials: those that it earned since the last trial."""

    acceptance: Acceptance
    tokens: float = START
    for_trials: float = 0.0


class Adaptive:
    """Chooses lengths by what was measured. Nothing here changes a text.

    prior  see Drafter
    """

    def __init__(self, prior: Sequence[float]) -> None:
        self._acceptance = Acceptance(prior)
        self._costs = StepCosts()
        self._accounts: dict[Request, Account] = {}

    def length(self, request: Request, kind: int, lengths: range, n_answers: int) -> int | None:
        """The best of these lengths for the next step, in which so many answers run; 0: none of them pays.

        None: plain time is to be measured first.
        """
        if self._costs.is_due(n_answers):
            return None
        account = self._account(request)
        p = account.acceptance.share(kind)
        best, most = 0, 0.0
        for n in lengths:
            cost = self._costs.cost(n_answers, n)
            if cost <= account.tokens and _expected(p, n) - cost > most:
                best, most = n, _expected(p, n) - cost
        return best or self._trial(account, lengths[0], n_answers)

    def measured(self, step: Sequence[Verified], ms: float) -> None:
        """A step without prompts took ms, drafting included. All answers of the step are given."""
        n_drafted = sum(v.n_drafted for v in step)
        cost = self._costs.measured(len(step), n_drafted, ms)
        for v in step:
            account = self._accounts.get(v.request) or Account(Acceptance(self._acceptance))  # it may have ended
            gain = 0.0
            if v.n_drafted:
                account.acceptance.saw(v.kind, v.n_drafted, v.n_accepted)
                gain = v.n_accepted - cost * v.n_drafted / n_drafted
            account.tokens = min(account.tokens + EARNED + gain, RICHEST)
            account.for_trials += EARNED

    def forget(self, request: Request) -> None:
        self._accounts.pop(request, None)

    def _trial(self, account: Account, n: int, n_answers: int) -> int:
        """n if a draft that is wrong can be paid out of what was earned, else 0."""
        cost = self._costs.cost(n_answers, n)
        if cost > min(account.for_trials, account.tokens):
            return 0
        account.for_trials = 0.0
        return n

    def _account(self, request: Request) -> Account:
        if request not in self._accounts:
            self._accounts[request] = Account(Acceptance(self._acceptance))
        return self._accounts[request]


def _expected(p: float, n: int) -> float:
    """Tokens of a draft of n that are accepted, on average."""
    return p * (1 - p**n) / (1 - p)
