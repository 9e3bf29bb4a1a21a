"""What drafted rows cost here and now: steps with them against steps without."""

from dataclasses import dataclass, field

from chenxing.models.model import N_OUTPUTS

DEARER, CHEAPER = 0.15, 0.3  # weights of a new measurement: machines are held up by others, and never sped up
LARGEST_JUMP = 3.0  # a measurement of more than so many times the mean counts as that
FIRST_GUESS = 0.3  # of a plain step for each drafted row, before any was measured: high, so that trying is cheap
LARGEST_ROW = 2.0  # of a plain step: where a row costs more than one, drafts cannot pay anyway
N_SIZES = N_OUTPUTS.bit_length() + 1
ENOUGH, STALE = 3, 64  # plain steps before the first draft, and steps with drafts after which a plain one is due


@dataclass
class Mean:
    """Of n measurements, recent ones more than others, and short times more than long ones."""

    value: float = 0.0
    n: int = 0

    def add(self, x: float) -> None:
        x = min(x, LARGEST_JUMP * self.value) if self.n and self.value else x
        self.n += 1
        self.value += (x - self.value) * max(1 / self.n, CHEAPER if x < self.value else DEARER)


@dataclass
class Costs:
    """With one number of answers.

    rows    what was measured of a drafted row, in plain steps, by the size of the draft in bits
    prices  what is expected of it, by size. One row alone is the dearest, since kernels work on several at once: of a
            size that was not measured it is the nearest one's, but no more than the first guess
    """

    plain_ms: Mean = field(default_factory=Mean)
    rows: dict[int, Mean] = field(default_factory=dict)
    prices: list[float] = field(default_factory=lambda: [FIRST_GUESS] * N_SIZES)
    n_since_plain: int = 0

    def add(self, size: int, row: float) -> None:
        self.rows.setdefault(size, Mean(FIRST_GUESS, 1)).add(row)
        for i in range(N_SIZES):
            nearest = min(self.rows, key=lambda known: abs(known - i))
            self.prices[i] = self.rows[nearest].value if i == nearest else min(self.rows[nearest].value, FIRST_GUESS)


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
        costs.add(n_drafted.bit_length(), row)
        return n_answers * n_drafted * row

    def cost(self, n_answers: int, n_drafted: int) -> float:
        """Of so many drafted rows, in tokens: those that the answers would have had in this time without them."""
        return n_answers * n_drafted * self._costs(n_answers).prices[n_drafted.bit_length()]

    def _costs(self, n_answers: int) -> Costs:
        if n_answers not in self._of:
            self._of[n_answers] = Costs()
        return self._of[n_answers]
