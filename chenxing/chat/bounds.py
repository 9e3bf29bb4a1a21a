"""What a template may cost. A template is foreign code, so everything that can grow passes a Meter.

The unit is one character made. A step (a loop round, a call, a filter) and an element of a list cost 16 each. The
budget is a fixed amount plus a share of the input, so whether a template is cut off does not depend on the machine;
the clock is only there for what a unit cannot describe, and counts this thread's processor time, so a busy machine
does not cut anything off.
"""

import time
from typing import Any

from chenxing.errors import TemplateError

STEP = 16
"""Units of one step, and of one element of a list or dict: about the bytes that CPython spends on it."""

BASE_UNITS = 8 << 20
UNITS_PER_INPUT = 64
"""A template that rebuilds its whole input for each of 64 messages still passes."""

MAX_SECONDS = 1.5
PROBE_SECONDS = 0.2
"""For the few short messages that capabilities.py tries a template on."""

CLOCK_EVERY = 64 * STEP
"""Reading the thread's clock costs about 1 us, a step about 2 us: look every 64 steps."""


class TemplateLimitError(TemplateError):
    """The template was cut off: it would have made too much or taken too long."""


class Meter:
    """The budget of one rendering.

    Invariant: no value larger than what is left of the budget is ever made, so memory stays below a small multiple of
    BASE_UNITS + UNITS_PER_INPUT * n_input bytes, and no single operation runs for long.
    """

    def __init__(self, n_input: int, seconds: float = MAX_SECONDS) -> None:
        self.left = BASE_UNITS + UNITS_PER_INPUT * n_input
        self._seconds = seconds
        self._deadline = time.thread_time() + seconds
        self._look_at = self.left - CLOCK_EVERY

    def spend(self, units: int) -> None:
        """Pay before making something of that size. Raises TemplateLimitError when the budget or the time is over."""
        self.left -= units
        if self.left < self._look_at:
            if self.left < 0:
                raise TemplateLimitError("the chat template was cut off: it makes too much text or loops too often")
            if time.thread_time() > self._deadline:
                raise TemplateLimitError(f"the chat template was cut off after {self._seconds} s of computing")
            self._look_at = max(self.left - CLOCK_EVERY, 0)

    def size(self, value: Any) -> int:
        """Units that `value` spells out when it is printed, compared or hashed, containers walked as trees.

        A list that holds the same list twice, forty levels deep, is small in memory and endless on paper: the walk
        raises TemplateLimitError as soon as it passes what is left.
        """
        if isinstance(value, str):
            return len(value)
        total, stack = 0, [value]
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                total += len(item)
            else:
                total += STEP
                if isinstance(item, dict):
                    stack.extend(item)
                    stack.extend(item.values())
                elif isinstance(item, (list, tuple)):
                    stack.extend(item)
            if total > self.left:
                raise TemplateLimitError("the chat template was cut off: it prints or compares too large a value")
        return total
