"""How many rows of prompts a step may take while answers wait for it: as many as fit into a bounded stall."""

STALL_MS = 100.0  # what a step may take that makes running answers wait for somebody's prompt
FIRST_ROWS = 32  # before anything was measured
MIN_ROWS = 8  # prompts go on, however slow the machine is
DECAY = 0.7  # of what was measured before, with each new measurement


class Pace:
    """A running estimate of what a step's rows cost here and now. It decides how work is cut, never what comes out.

    n_rows   of prompts that the next step may take while answers run; at most twice as many as before
    n_batch  of prompts that any step may take
    """

    def __init__(self, n_batch: int) -> None:
        self.n_rows = min(FIRST_ROWS, n_batch)
        self.n_batch = n_batch
        self._decode_ms: float | None = None  # a step of running answers alone
        self._prefill_ms = self._prefill_rows = 0.0  # in mixed steps beyond that; recent ones weigh most

    def measured(self, n_decode: int, n_prefill: int, ms: float) -> None:
        """A step of so many rows took ms."""
        if not n_prefill:
            self._decode_ms = ms if self._decode_ms is None else DECAY * self._decode_ms + (1 - DECAY) * ms
            return
        if n_decode and self._decode_ms is not None:
            self._decode_ms = min(self._decode_ms, ms)  # it was measured too high
        decode_ms = self._decode_ms or 0.0
        self._prefill_ms = DECAY * self._prefill_ms + ms - (decode_ms if n_decode else 0.0)
        self._prefill_rows = DECAY * self._prefill_rows + n_prefill
        row_ms = self._prefill_ms / self._prefill_rows
        affordable = int(max(0.0, STALL_MS - decode_ms) / row_ms) if row_ms else self.n_batch
        self.n_rows = min(max(MIN_ROWS, min(affordable, 2 * self.n_rows)), self.n_batch)
