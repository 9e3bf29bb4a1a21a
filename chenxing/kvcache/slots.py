"""Which slots of a data file are in use."""

import heapq
from collections.abc import Iterable


class Slots:
    """Slots 0 .. n - 1, each taken or free; low ones are taken first, so that the file can end early.

    `loose` are free slots whose space on disk has not been given back.
    """

    def __init__(self, taken: Iterable[int] = (), n: int = 0) -> None:
        self.taken, self.n = set(taken), n
        assert all(slot < n for slot in self.taken)
        self._free = [slot for slot in range(self.n) if slot not in self.taken]
        self.loose = set(self._free)

    def take(self) -> int:
        slot = heapq.heappop(self._free) if self._free else self.n
        self.n = max(self.n, slot + 1)
        self.taken.add(slot)
        self.loose.discard(slot)
        return slot

    def give(self, slot: int) -> None:
        self.taken.remove(slot)
        self.loose.add(slot)
        heapq.heappush(self._free, slot)

    def settle(self) -> tuple[bool, list[int]]:
        """Forget free slots at the end. -> whether the file may be shortened to n, loose slots before that."""
        n = self.n
        while self.n and self.n - 1 not in self.taken:
            self.n -= 1
        if self.n < n:
            self._free = [slot for slot in self._free if slot < self.n]
            heapq.heapify(self._free)
        holes = sorted(slot for slot in self.loose if slot < self.n)
        self.loose.clear()
        return self.n < n, holes

    def check_integrity(self) -> None:
        assert self.taken.isdisjoint(self._free)
        assert self.taken | set(self._free) == set(range(self.n)) and len(self.taken) + len(self._free) == self.n
        assert self.loose <= set(self._free)
