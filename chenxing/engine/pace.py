"""How many rows of prompts a step may take while answers wait for it: as many as fit into a bounded stall."""

STALL_MS = 100.0  # what a step may take that makes running answers wait for somebody's prompt
FIRST_ROWS = 32  # before anything was measured
MIN_ROWS = 8  # prompts go on, however slow the machine is
SMOOTHING = 0.3  # share of the newest measurement


class Pace:
    """A running estimate of what a step's rows cost here and now. It decides how work is cut, never what comes out.

    n_rows  of prompts that the next step may take while answers run; at most twice as many as were measured before
    """

    def __init__(self, n_batch: int) -> None:
        self.n_rows = FIRST_ROWS
        self._n_batch = n_batch
        self._decode_ms = 0.0  # a step of running answers alone
        self._row_ms: float | None = None  # a row of a prompt more

    def measured(self, n_decode: int, n_prefill: int, ms: float) -> None:
        """A step of so many rows took ms."""
        if not n_prefill:
            self._decode_ms = ms if not self._decode_ms else self._smooth(self._decode_ms, ms)
            return
        row_ms = max(0.0, ms - (self._decode_ms if n_decode else 0.0)) / n_prefill
        self._row_ms = row_ms if self._row_ms is None else self._smooth(self._row_ms, row_ms)
        left = max(0.0, STALL_MS - self._decode_ms)
        affordable = int(left / self._row_ms) if self._row_ms else self._n_batch
        self.n_rows = max(MIN_ROWS, min(affordable, 2 * max(n_prefill, FIRST_ROWS), self._n_batch))

    @staticmethod
    def _smooth(old: float, new: float) -> float:
        return old + SMOOTHING * (new - old)
