"""How far a stage is: one line on the terminal that is rewritten in place and gone afterwards.

Hand-written because a progress bar of a library would take longer to import than a warm start takes to load a model.
"""

import shutil
import time
from collections.abc import Callable
from typing import TextIO

_BAR_CHARS = 24
_QUIET_S = 0.3
_QUIET_LOG_S = 2.0
_FRAME_S = 0.05


class ProgressLine:
    """Shows stages on `stream`. A stage that is over within a moment is never shown.

    On a terminal it is a bar that is erased by `clear`; in a log file or pipe it is one plain line per long stage.
    """

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._tty = stream.isatty()
        self._stage: str | None = None
        self._stage_start = self._last_frame = 0.0
        self._n_shown = 0  # characters of the line that is on the terminal now
        self._logged = False

    def update(self, stage: str, fraction: float, detail: str = "") -> None:
        """`fraction` 0..1 of `stage` is done; `detail` stands behind the bar."""
        now = self._clock()
        if stage != self._stage:
            self._stage, self._stage_start, self._logged = stage, now, False
        if not self._tty:
            self._log(now)
        elif now - self._stage_start >= _QUIET_S and (now - self._last_frame >= _FRAME_S or fraction >= 1):
            self._last_frame = now
            done = round(min(max(fraction, 0.0), 1.0) * _BAR_CHARS)
            bar = "#" * done + "." * (_BAR_CHARS - done)
            self._show(f"{stage} [{bar}] {fraction:4.0%}  {detail}".rstrip())

    def prefill(self, n_done: int, n_total: int) -> None:
        """`n_done` of `n_total` prompt tokens are computed."""
        self.update("reading the prompt", n_done / max(n_total, 1), f"{n_done}/{n_total} tokens")

    def clear(self) -> None:
        """Takes the line off the terminal; what is printed next starts in an empty line."""
        if self._n_shown:
            self._stream.write("\r" + " " * self._n_shown + "\r")
            self._stream.flush()
        self._n_shown, self._stage = 0, None

    def _show(self, line: str) -> None:
        line = line[: shutil.get_terminal_size().columns - 1]  # a wrapped line could not be taken back
        self._stream.write("\r" + line.ljust(self._n_shown))
        self._stream.flush()
        self._n_shown = len(line)

    def _log(self, now: float) -> None:
        if not self._logged and now - self._stage_start >= _QUIET_LOG_S:
            self._logged = True
            self._stream.write(f"chenxing: {self._stage} …\n")
            self._stream.flush()
