"""The step that runs, as others see it who want it to end: those who cancel requests, and who stops the engine."""

from collections.abc import Iterable

from chenxing.engine.request import Request
from chenxing.kernels.cut import Cut


class RunningStep:
    """Ends a step before its time if all are cancelled whom it serves, and only then.

    `look` and `stop` may be called from any thread and in signal handlers, all else in the engine's. Nothing is locked:
    who cancels says so first and looks for a step then, who begins a step tells whom it serves and looks for cancelled
    ones then, so one of the two sees the other. Who has looked at a step that is over ends nothing (see Cut).
    """

    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self._served: tuple[int, list[Request]] | None = None  # by the step of this number; None while there is none
        self._is_stopping = False

    def begin(self, served: Iterable[Request]) -> None:
        """What the model computes from now on is for these alone."""
        self._served = self._cut.begin(), list(served)
        self.look()

    def end(self) -> None:
        """It is over. Other users of the model are not ended."""
        self._served = None
        self._cut.begin()

    def look(self) -> None:
        """Somebody was cancelled."""
        running = self._served
        if running and (self._is_stopping or all(request.is_cancelled for request in running[1])):
            self._cut.end(running[0])

    def stop(self) -> None:
        """No step is to run until `resume`, whoever wants it."""
        self._is_stopping = True
        self.look()

    def resume(self) -> None:
        """Steps may run again."""
        self._is_stopping = False
