"""Drafts for a selfcheck that are right and wrong in turn, so that both ends of a draft are seen."""

from collections.abc import Sequence

from chenxing.engine import Request
from chenxing.engine.speculation import Speculation
from chenxing.engine.speculation.adaptive import Verified

N_DRAFT = 4
_RIGHT = 3  # tokens of an answer between two that are drafted wrongly


class Foreseen:
    """A drafter that is told the answers, and spoils every fourth token of them."""

    name, prior = "foreseen", (0.75,)

    def __init__(self) -> None:
        self._answers: dict[Request, list[int]] = {}

    def foresee(self, request: Request, token_ids: list[int]) -> None:
        self._answers[request] = token_ids

    def outlook(self, request: Request) -> int | None:
        return 0

    def draft(self, wanted: Sequence[tuple[Request, int]]) -> list[list[int] | None]:
        drafts: list[list[int] | None] = []
        for request, n in wanted:
            at, ids = request.stats.n_generated, self._answers[request]
            drafts.append([ids[i] ^ (i % (_RIGHT + 1) == _RIGHT) for i in range(at, min(at + n, len(ids)))])
        return drafts

    def forget(self, request: Request) -> None:
        self._answers.pop(request, None)

    def close(self) -> None:
        self._answers.clear()


class Always:
    """A policy for which no draft is too dear."""

    def length(self, request: Request, kind: int, lengths: range, n_answers: int) -> int:
        return lengths[-1]

    def measured(self, step: Sequence[Verified], ms: float) -> None: ...
    def forget(self, request: Request) -> None: ...


def foreseeing(drafter: Foreseen) -> Speculation:
    """What an engine is given to try them."""
    return Speculation(drafter, N_DRAFT, policy=Always())
