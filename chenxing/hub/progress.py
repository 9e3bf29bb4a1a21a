"""Progress of a pull: bytes in, calls of `on_progress(stage, fraction)` out."""

from collections.abc import Callable

Progress = Callable[[str, float], None]
"""on_progress(stage, fraction 0..1). Stages of a pull: "download", "verify"."""

_STEP = 0.001


class Meter:
    """Counts the bytes of one stage and reports every thousandth of the whole, the start and the end.

    Invariant: reported fractions never exceed 1, whatever is counted.
    """

    def __init__(self, stage: str, total: int, on_progress: Progress | None) -> None:
        self._stage, self._total, self._on_progress = stage, max(total, 1), on_progress
        self._done = 0
        self._reported = -1.0
        self.set(0)

    def add(self, n_bytes: int) -> None:
        self.set(self._done + n_bytes)

    def follow(self, base: int, scale: float = 1) -> Callable[[float], None]:
        """A callback for one part of the stage: it gets the part's progress x, and base + scale * x is then done."""
        return lambda x: self.set(base + round(scale * x))

    def set(self, done: int) -> None:
        """`done` bytes of the stage are there; it may go back, when a server makes a download start again."""
        self._done = done
        fraction = min(1.0, done / self._total)
        if self._on_progress and (abs(fraction - self._reported) >= _STEP or (fraction == 1.0 > self._reported)):
            self._reported = fraction
            self._on_progress(self._stage, fraction)
