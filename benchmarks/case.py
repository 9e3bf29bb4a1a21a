"""What is measured: one test of one model, for both contestants."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class BenchModel:
    """label: as in tables. small: a real model of 100 to 300 million weights, whose goals differ."""

    label: str
    path: Path
    small: bool = False


@dataclass(frozen=True)
class Case:
    """n_prompt tokens at once or n_gen one by one (the other is 0) after n_depth; goal: ours over the peer's speed."""

    model: BenchModel
    n_threads: int
    n_prompt: int = 0
    n_gen: int = 0
    n_depth: int = 0
    goal: float | None = None
    beside_busy: bool = False

    @property
    def test(self) -> str:
        name = f"pp{self.n_prompt}" if self.n_prompt else f"tg{self.n_gen}"
        return f"{name} @ d{self.n_depth}" if self.n_depth else name

    @property
    def flags(self) -> list[str]:
        """That llama-bench and `chenxing bench` have in common."""
        counts = {"-p": self.n_prompt, "-n": self.n_gen, "-d": self.n_depth, "-t": self.n_threads}
        return [word for flag, n in counts.items() for word in (flag, str(n))]


@dataclass
class Samples:
    """Tokens per second of every repetition, and what ours says beside (bytes/s read, of the plain read, MAC/s)."""

    ours: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)
    beside: dict[str, list[float]] = field(default_factory=dict)
