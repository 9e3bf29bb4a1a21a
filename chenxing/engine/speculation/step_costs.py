"""What drafted rows cost here and now: steps with them against steps without."""

from dataclasses import dataclass, field

NEWEST = 0.2  # weight of the newest measurement in a mean, once there are more than a few
LARGEST_JUMP = 3.0  # a measurement of more than so many times the mean is somebody else's doing, and counts so much
FIRST_GUESS = 0.3  # of a plain step for each drafted row, before any was measured: high, so that trying is cheap
LARGEST_ROW = 2.0  # of a plain step; what took longer was held up by something else
ENOUGH, STALE = 3, 64  # plain steps before the first draft, and steps with drafts after which a plain one is due


@dataclass
class Mean:
    """Of n measurements, recent ones more than others."""

    value: float = 0.0
    n: int = 0

    def add(self, x: float) -> None:
        x = min(x, LARGEST_JUMP * self.value) if self.n and self.value else x
        self.n += 1
        self.value += (x - self.value) * max(1 / self.n, NEWEST)


@dataclass
class Costs:
    """With one number of answers. rows: of a drafted row, in plain steps, by the size of the draft in bits."""

    plain_ms: Mean = field(default_factory=Mean)
    rows: dict[int, Mean] = field(default_factory=dict)
    n_since_plain: int = 0


class StepCosts:
    """Running means, for each number of answers that run together. Only steps without prompts are measured.

    A step with drafts is compared with plain ones of as many answers, so that depth and a busy machine weigh on both.
    """

    def __init__(self) -> None:
        self._of: dict[int, Costs] = {}

    def is_due(self, n_answers: int) -> bool:
        """Whether a plain step must be measured before drafts can be judged."""
        costs = self._costs(n_answers)
        return costs.plain_ms.n < ENOUGH or costs.n_since_plain >= STALE

    def measured(self, n_answers: int, n_drafted: int, ms: float) -> float:
        """A step of so many answers with so many drafted rows took ms, drafting included. -> its cost, as `cost`."""
        costs = self._costs(n_answers)
        if not n_drafted:
            costs.n_since_plain = 0
            costs.plain_ms.add(ms)
            return 0.0
        costs.n_since_plain += 1
        row = min(max(0.0, ms / costs.plain_ms.value - 1) / n_drafted, LARGEST_ROW)
        costs.rows.setdefault(n_drafted.bit_length(), Mean()).add(row)
        return n_answers * n_drafted * row

    def cost(self, n_answers: int, n_drafted: int) -> float:
        """Of so many drafted rows, in tokens: those that the answers would have had in this time without them."""
        rows, size = self._costs(n_answers).rows, n_drafted.bit_length()
        row = rows[min(rows, key=lambda known: abs(known - size))].value if rows else FIRST_GUESS
        return n_answers * n_drafted * row

    def _costs(self, n_answers: int) -> Costs:
        return self._of.setdefault(n_answers, Costs())
