"""Drafts for a fake model: right as often as wanted."""

import random
from collections.abc import Sequence

from engine.fake_model import LETTERS, FakeSampler, alone

from chenxing.engine import Limits, Request
from chenxing.engine.speculation.adaptive import Verified

N_CTX = 1 << 12  # longer than any that is asked for


class Seer:
    """Knows each answer beforehand, and says so for a share of the tokens."""

    name, prior = "seer", (0.5,)

    def __init__(self, share: float, seed: int = 1) -> None:
        self._share, self._rng = share, random.Random(seed)
        self._futures: dict[Request, list[int]] = {}

    def outlook(self, request: Request) -> int | None:
        return 0

    def draft(self, wanted: Sequence[tuple[Request, int]]) -> list[list[int] | None]:
        return [self._one(request, n) for request, n in wanted]

    def _one(self, request: Request, n: int) -> list[int] | None:
        if self._rng.random() < 0.1:
            return self._rng.choice(([], None))
        future = self._future(request, n)
        return [t if self._rng.random() < self._share else self._rng.randrange(len(LETTERS)) for t in future]

    def _future(self, request: Request, n: int) -> list[int]:
        if request not in self._futures:
            assert isinstance(request.sampler, FakeSampler)
            n_new = request.limits.max_tokens or N_CTX - request.n_prompt
            ids = request.ids[: request.n_prompt]
            text, _ = alone(ids, N_CTX, seed=request.sampler.seed, limits=Limits(min(n_new, 400)))
            self._futures[request] = [LETTERS.index(letter) for letter in text]
        at = request.stats.n_generated
        return self._futures[request][at : at + n]

    def forget(self, request: Request) -> None:
        self._futures.pop(request, None)

    def close(self) -> None:
        self._futures.clear()


class Longest:
    """A policy of drafts that are as long as they may be; it keeps what became of them."""

    def __init__(self) -> None:
        self.steps: list[list[Verified]] = []

    def length(self, request: Request, kind: int, lengths: range, n_answers: int) -> int:
        return lengths[-1]

    def measured(self, step: Sequence[Verified], ms: float) -> None:
        self.steps.append(list(step))

    def forget(self, request: Request) -> None:
        pass
