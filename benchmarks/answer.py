"""What a question module's `ask` gives for each model: a row of a table, and everything that was measured."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.case import Case, Samples


@dataclass(frozen=True)
class Answer:
    """cells: by the column's name. measured: for the JSON file."""

    cells: dict[str, str]
    measured: dict[str, Any]


def speed_answer(case: Case, samples: Samples, more: dict[str, str] | None = None) -> Answer:
    """Medians of both and their ratio, beside the goal."""
    cells = {
        "model": case.model.label,
        "threads": str(case.n_threads),
        "test": case.test,
        "chenxing": _rate(samples.ours),
        "llama.cpp": _rate(samples.peer),
        "ratio": _times(ratio(samples)),
        "goal": _times(case.goal),
        **(more or {}),
    }
    measured = {"case": asdict(case), **asdict(samples), "ratio": ratio(samples)}
    return Answer(cells, measured)


def ratio(samples: Samples) -> float | None:
    """Our median over the peer's."""
    return statistics.median(samples.ours) / statistics.median(samples.peer) if samples.peer else None


def _rate(values: Sequence[float]) -> str:
    if not values:
        return "not measured"
    return f"{statistics.median(values):.1f} ({min(values):.1f}..{max(values):.1f})"


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} x"
