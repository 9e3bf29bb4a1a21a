"""Running a model: prompts, tokens, answers."""

from chenxing.engine.engine import Engine
from chenxing.engine.generation import Generation, Stats

__all__ = ["Engine", "Generation", "Stats"]
