"""What drafted rows cost here and now: steps with them against steps without."""

KEPT = 0.8  # of what was measured before, with each new measurement
LARGEST_JUMP = 3.0  # a measurement of more than so many times the mean is somebody else's doing, and counts so much
FIRST_GUESS = 0.3  # of a plain step for each drafted row, before any was measured: high, so that trying is cheap
LARGEST_ROW = 2.0  # of a plain step; what took longer was held up by something else
STALE = 64  # steps with drafts in a row, after which a plain one is due


class StepCosts:
    """Running means, for each number of answers that run together. Only steps without prompts are measured.

    A step with drafts is compared with plain ones of as many answers, so that depth and a busy machine weigh on both.
    """

    def __init__(self) -> None:
        self._plain_ms: dict[int, float] = {}
        self._row: dict[int, dict[int, float]] = {}  # answers -> size -> cost of a row, in plain steps
        self._n_since_plain: dict[int, int] = {}

    def is_due(self, n_answers: int) -> bool:
        """Whether a plain step must be measured before drafts can be judged."""
        return n_answers not in self._plain_ms or self._n_since_plain[n_answers] >= STALE

    def measured(self, n_answers: int, n_drafted: int, ms: float) -> float:
        """A step of so many answers with so many drafted rows took ms, drafting included. -> its cost, as `cost`."""
        if not n_drafted:
            self._n_since_plain[n_answers] = 0
            self._plain_ms[n_answers] = _mean(self._plain_ms.get(n_answers), ms)
            return 0.0
        plain_ms = self._plain_ms[n_answers]
        self._n_since_plain[n_answers] += 1
        row = min(max(0.0, ms / plain_ms - 1) / n_drafted, LARGEST_ROW)
        sizes = self._row.setdefault(n_answers, {})
        size = n_drafted.bit_length()
        sizes[size] = _mean(sizes.get(size), row)
        return n_answers * n_drafted * row

    def cost(self, n_answers: int, n_drafted: int) -> float:
        """Of so many drafted rows, in tokens: those that the answers would have had in this time without them."""
        sizes = self._row.get(n_answers)
        size = n_drafted.bit_length()
        row = sizes[min(sizes, key=lambda known: abs(known - size))] if sizes else FIRST_GUESS
        return n_answers * n_drafted * row


def _mean(before: float | None, now: float) -> float:
    return now if before is None else KEPT * before + (1 - KEPT) * min(now, LARGEST_JUMP * before)
