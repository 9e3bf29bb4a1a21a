"""Running a model: prompts, tokens, answers."""

from chenxing.engine.cache_room import MEMORY_ONLY, CacheRoom
from chenxing.engine.engine import Engine
from chenxing.engine.generation import Generation, Stats

__all__ = ["MEMORY_ONLY", "CacheRoom", "Engine", "Generation", "Stats"]
