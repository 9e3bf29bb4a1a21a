"""Running a model: prompts, tokens, answers, of many at once."""

from chenxing.engine.cache_room import MEMORY_ONLY, CacheRoom
from chenxing.engine.engine import N_SLOTS, Engine
from chenxing.engine.generation import Generation
from chenxing.engine.request import Event, FinishReason, Limits, Request, Shift
from chenxing.engine.speculation import SpecOptions
from chenxing.engine.stats import DraftCounts, EngineStats, Stats
from chenxing.engine.thread import EngineThread

__all__ = [
    "MEMORY_ONLY",
    "N_SLOTS",
    "CacheRoom",
    "DraftCounts",
    "Engine",
    "EngineStats",
    "EngineThread",
    "Event",
    "FinishReason",
    "Generation",
    "Limits",
    "Request",
    "Shift",
    "SpecOptions",
    "Stats",
]
