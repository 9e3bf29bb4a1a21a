"""What one step runs: each request's share of its rows."""

from dataclasses import dataclass, field

from chenxing.engine.request import Event, Request
from chenxing.models import Run


@dataclass
class Share:
    """The next n_scheduled pending tokens of a request. If they are all, its next token will be chosen.

    twins  requests of the same prompt that begin with the KV and the logits of this one
    """

    request: Request
    n_scheduled: int
    twins: list[Request] = field(default_factory=list)

    @property
    def is_last(self) -> bool:
        return self.n_scheduled == self.request.n_pending

    def run(self) -> Run:
        sequence = self.request.sequence
        assert sequence
        outputs = (self.n_scheduled - 1,) if self.is_last else ()
        return Run(self.tokens, sequence.n_tokens, sequence.table, outputs)

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
