"""Speculative decoding: what drafts, how much, and how it stays exact."""

from chenxing.engine.speculation.drafter import Drafter
from chenxing.engine.speculation.ngram import NGramDrafter
from chenxing.engine.speculation.options import SpecOptions
from chenxing.engine.speculation.speculation import Policy, Speculation

__all__ = ["Drafter", "NGramDrafter", "Policy", "SpecOptions", "Speculation"]
