"""Sums over all answers since the start, for /metrics."""

from dataclasses import dataclass, fields, replace

from chenxing.server.answers import Answer


@dataclass
class Sums:
    """n_prompt tokens that were computed, n_cached that were not; seconds of both kinds of work.

    n_decoded  tokens after each answer's first, which the prompt's last step brings
    """

    n_prompt: int = 0
    n_cached: int = 0
    prompt_s: float = 0.0
    n_predicted: int = 0
    n_decoded: int = 0
    predicted_s: float = 0.0

    def minus(self, other: "Sums") -> "Sums":
        return Sums(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(Sums)))


class Totals:
    """sums, and what was new since the last time that somebody asked; n_longest is the longest sequence seen."""

    def __init__(self) -> None:
        self.sums = Sums()
        self.n_longest = 0
        self._seen = Sums()

    def count(self, answer: Answer) -> None:
        """An answer that has finished, or was given up."""
        stats, sums = answer.stats, self.sums
        if answer.last is None:
            return
        sums.n_prompt += answer.last.n_computed - min(stats.n_cached, answer.last.n_computed)
        sums.n_cached += stats.n_cached
        sums.prompt_s += stats.prompt_ms / 1000
        sums.n_predicted += stats.n_generated
        sums.n_decoded += max(0, stats.n_generated - 1)
        sums.predicted_s += stats.generation_ms / 1000
        self.n_longest = max(self.n_longest, stats.n_prompt + stats.n_generated)

    def new(self) -> Sums:
        """Since the last call."""
        seen, self._seen = self._seen, replace(self.sums)
        return self._seen.minus(seen)
