"""What the writers of all protocols share: identity of an answer, and reports of the prompt's progress."""

import random
import string
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from chenxing import __version__
from chenxing.server.answers import Step
from chenxing.server.timings import progress, timings

FINGERPRINT = f"b-chenxing-{__version__}"
_LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True)
class Identity:
    """The same in all chunks of an answer."""

    model: str
    prefix: str = "chatcmpl"
    created: int = field(default_factory=lambda: int(time.time()))
    id: str = field(default_factory=lambda: "".join(random.choices(_LETTERS, k=32)))

    def head(self, kind: str) -> dict[str, Any]:
        return {
            "created": self.created,
            "id": f"{self.prefix}-{self.id}",
            "model": self.model,
            "system_fingerprint": FINGERPRINT,
            "object": kind,
        }


class ProgressReports:
    """`prompt_progress` of the first answer: once before anything is computed, then whenever more is."""

    def __init__(self, *, with_timings: bool) -> None:
        self._with_timings = with_timings
        self._n_told: int | None = None

    def of(self, step: Step) -> Iterator[dict[str, Any]]:
        """Members of the chunks to be sent."""
        if step.index:
            return
        if self._n_told is None:
            self._n_told = step.stats.n_cached
            yield self._report(step, self._n_told)
        if step.n_computed > self._n_told:
            self._n_told = step.n_computed
            yield self._report(step, self._n_told)

    def _report(self, step: Step, n_computed: int) -> dict[str, Any]:
        members: dict[str, Any] = {"prompt_progress": progress(step.stats, n_computed)}
        if self._with_timings:
            told = timings(step.stats, n_computed)
            zero = {"predicted_n": 0, "predicted_ms": 0.0, "predicted_per_token_ms": 0.0, "predicted_per_second": 0.0}
            members = {"timings": told | zero, **members}
        return members
