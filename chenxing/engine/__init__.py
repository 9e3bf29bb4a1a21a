"""Running a model: prompts, tokens, answers, of many at once."""

from chenxing.engine.engine import N_SLOTS, Engine
from chenxing.engine.generation import Generation
from chenxing.engine.request import Constraint, Event, FinishReason, Limits, Request
from chenxing.engine.stats import EngineStats, Stats
from chenxing.engine.thread import EngineThread

__all__ = [
    "N_SLOTS",
    "Constraint",
    "Engine",
    "EngineStats",
    "EngineThread",
    "Event",
    "FinishReason",
    "Generation",
    "Limits",
    "Request",
    "Stats",
]
