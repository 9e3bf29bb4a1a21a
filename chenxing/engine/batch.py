"""What one step runs: each request's share of its rows."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from chenxing.engine.request import Event, Request
from chenxing.models import Run


@dataclass
class Share:
    """The next n_scheduled pending tokens of a request. If they are all, its next token will be chosen.

    twins      requests of the same prompt that begin with the KV and the logits of this one
    n_draft    further rows that there is room for, of drafted tokens
    draft      those tokens, n_draft or fewer; the rows after the first wrong one are void
    kind       of the draft, see Drafter
    is_answer  it is a step of an answer that has begun, and not of a prompt
    """

    request: Request
    n_scheduled: int
    twins: list[Request] = field(default_factory=list)
    n_draft: int = 0
    draft: list[int] = field(default_factory=list)
    kind: int = 0
    is_answer: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_answer = self.n_scheduled == 1 and self.request.stats.n_generated > 0

    @property
    def is_last(self) -> bool:
        return self.n_scheduled == self.request.n_pending

    def run(self) -> Run:
        sequence = self.request.sequence
        assert sequence and len(self.draft) <= self.n_draft
        tokens = self.tokens + self.draft
        outputs = range(self.n_scheduled - 1, len(tokens)) if self.is_last else ()
        return Run(tokens, sequence.n_tokens, sequence.table, outputs)

    @property
    def tokens(self) -> list[int]:
        sequence = self.request.sequence
        assert sequence
        return self.request.ids[sequence.n_tokens : sequence.n_tokens + self.n_scheduled]


@dataclass
class Batch:
    """shares   answers that run first, then prompts
    ended    of requests that could not go on, and are gone
    """

    shares: list[Share] = field(default_factory=list)
    ended: list[Event] = field(default_factory=list)

    def served(self, waiting: Iterable[Request]) -> list[Request]:
        """Whom the step brings further: those who run in it, and those who wait for what one of them computes."""
        runs = {share.request for share in self.shares}
        return [*runs, *(r for r in waiting if r.twin_of in runs or (r.awaits and r.awaits[0] in runs))]
