"""Speculative decoding: what drafts, how much, and how it stays exact."""

from chenxing.engine.speculation.drafter import Drafter
from chenxing.engine.speculation.ngram import NGramDrafter
from chenxing.engine.speculation.speculation import N_MAX, Policy, Speculation

__all__ = ["N_MAX", "Drafter", "NGramDrafter", "Policy", "Speculation"]
