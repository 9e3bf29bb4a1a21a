"""Whose turn it is, where many want what one can have at a time."""

from collections.abc import Sequence

from chenxing.engine.request import Request

PATIENCE = 16  # turns that go to higher priorities before a lower one has one


class Rotation:
    """Higher priorities first; clients of one priority in rotation; of one client, who came first.

    No one starves: a priority that was passed over PATIENCE times has a turn, and a client goes to the end of the
    rotation when it has had one. A client that is new joins at the end.
    """

    def __init__(self) -> None:
        self._passed_over: dict[int, int] = {}  # by priority
        self._rotation: dict[int, dict[object, None]] = {}  # by priority, the clients in the order of their turns

    def choose(self, candidates: Sequence[Request]) -> Request:
        """Who is next of these, at least one, in the order of their coming. Changes who is known, not whose turn."""
        level = self._level(candidates)
        mine = [r for r in candidates if r.priority == level]
        clients = dict.fromkeys(r.client for r in mine)
        known = self._rotation.get(level, {})
        rotation = [c for c in known if c in clients] + [c for c in clients if c not in known]
        self._rotation[level] = dict.fromkeys(rotation)
        return next(r for r in mine if r.client == rotation[0])

    def took(self, request: Request, candidates: Sequence[Request]) -> None:
        """That one, chosen of these, had its turn."""
        levels = {r.priority for r in candidates}
        over = self._passed_over
        self._passed_over = {n: over.get(n, 0) + (n < request.priority) for n in levels if n != request.priority}
        self._rotation = {n: clients for n, clients in self._rotation.items() if n in levels}
        rotation = self._rotation[request.priority]
        rotation[request.client] = rotation.pop(request.client)  # to the end

    def _level(self, candidates: Sequence[Request]) -> int:
        levels = sorted({r.priority for r in candidates})
        return next((level for level in levels if self._passed_over.get(level, 0) >= PATIENCE), levels[-1])
