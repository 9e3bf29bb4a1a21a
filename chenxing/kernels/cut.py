"""How running steps are ended before their time: a word of memory that threads look at before each chunk."""

import numpy as np

from chenxing.kernels.memory import address, aligned

_WORDS = 512  # steps until a word is used again


class StepCut(Exception):
    """A step was ended early: nothing that it wrote means anything. Whoever ends steps early catches it."""


class Cut:
    """Ends the steps of the teams that share it: those that run between two calls of `begin`.

    They have a word of their own, one of a ring: who comes so late that other steps run sets a word that nobody looks
    at. A word is set and never cleared before its next use, so all threads of a step agree in the end.
    """

    def __init__(self) -> None:
        self._array = aligned(_WORDS, np.int64)
        self._words, self._at, self._base = self._array.data, 0, address(self._array)

    def begin(self) -> int:
        """Other steps begin, in the thread that runs them. -> what `end` wants to know of them"""
        self._at = (self._at + 1) % _WORDS
        self._words[self._at] = 0
        return self._at

    def end(self, steps: int) -> None:
        """Let these steps end after the chunks that are being computed. From any thread or a signal handler."""
        self._words[steps] = 1

    @property
    def address(self) -> int:
        """Of the word of the steps that run now."""
        return self._base + 8 * self._at

    @property
    def is_set(self) -> bool:
        """The steps that run now are to end, or have ended."""
        return self._words[self._at] != 0
