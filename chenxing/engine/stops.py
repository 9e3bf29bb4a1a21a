"""Stop strings in streamed text: found across token borders, never shown, never held back longer than needed."""

from collections.abc import Sequence


class StopFilter:
    """Text in, text that may be shown out.

    What could be the beginning of a stop string is held back until it is decided. After `stopped` nothing comes.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [s for s in stops if s]
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """The text that is free to go; sets `stopped` when a stop string is complete."""
        if self.stopped:
            return ""
        text = self._held + text
        found = [at for at in (text.find(s) for s in self._stops) if at >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        keep = self._undecided(text)
        self._held = text[len(text) - keep :] if keep else ""
        return text[: len(text) - keep]

    def finish(self) -> str:
        """What was held back and turned out to be text."""
        text, self._held = self._held, ""
        return text

    def _undecided(self, text: str) -> int:
        """Length of the longest end of text that begins a stop string."""
        longest = max((len(s) for s in self._stops), default=1) - 1
        for n in range(min(longest, len(text)), 0, -1):
            if any(s.startswith(text[-n:]) for s in self._stops):
                return n
        return 0
