"""Pages of keys and values in memory: the pool that owns them and counts who uses them.

A page holds PAGE consecutive tokens, all layers, contiguous. Memory is private and anonymous and comes in extents as it
is needed, so that it follows use and never the context setting. Conservation (law L6): every page is free or in use,
never both; counts never fall below zero; a page with more than one reference is not written.
Source  Kwon 2023 (PagedAttention).
"""

import heapq
from collections.abc import Iterable

import numpy as np

from chenxing.kernels.memory import address, aligned

EXTENT_BYTES = 32 << 20  # at least one page


class PagePool:
    """At most n_pages pages of page_bytes, numbered from 0.

    Invariants: a page's number and address mean the same memory from its first allocation until `trim` gives its extent
    back; the bytes of every page are finite numbers (zero at first, then what was computed), because masked slots are
    multiplied by zero.
    Mutated by allocate, retain, release and trim only. One thread.
    """

    def __init__(self, n_pages: int, page_bytes: int, extent_bytes: int = EXTENT_BYTES) -> None:
        assert n_pages >= 0 and page_bytes > 0
        self.n_pages, self.page_bytes = n_pages, page_bytes
        self._per_extent = max(1, min(extent_bytes // page_bytes, n_pages))
        self._extents: dict[int, np.ndarray] = {}
        self._absent: list[int] = []  # extents that were given back, a heap
        self._n_known = 0  # extents that were ever there
        self._references: dict[int, int] = {}
        self._free: list[int] = []  # pages of present extents, a heap: low pages first, so that high extents empty

    @property
    def n_used(self) -> int:
        return len(self._references)

    @property
    def n_bytes(self) -> int:
        """Bytes of all extents that are there."""
        return sum(extent.size for extent in self._extents.values())

    def allocate(self) -> int | None:
        """A page with one reference, or None if all are in use or the system has no more memory."""
        if not self._free and not self._grow():
            return None
        page = heapq.heappop(self._free)
        assert page not in self._references
        self._references[page] = 1
        return page

    def retain(self, page: int) -> None:
        """One more reference to a page in use."""
        assert page in self._references, f"page {page} is free"
        self._references[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """One reference less to each; the last one frees the page."""
        for page in pages:
            count = self._references.get(page)
            assert count, f"page {page} is released twice"
            if count > 1:
                self._references[page] = count - 1
            else:
                del self._references[page]
                heapq.heappush(self._free, page)

    def references(self, page: int) -> int:
        return self._references.get(page, 0)

    def address(self, page: int) -> int:
        extent, place = divmod(page, self._per_extent)
        return address(self._extents[extent]) + place * self.page_bytes

    def bytes_of(self, page: int) -> np.ndarray:
        """u8[page_bytes], a view of a page in use."""
        assert page in self._references, f"page {page} is free"
        extent, place = divmod(page, self._per_extent)
        return self._extents[extent][place * self.page_bytes : (place + 1) * self.page_bytes]

    def trim(self) -> int:
        """Give the memory of wholly free extents back. -> bytes."""
        used = {page // self._per_extent for page in self._references}
        idle = self._extents.keys() - used
        n_bytes = sum(self._extents.pop(extent).size for extent in idle)
        for extent in idle:
            heapq.heappush(self._absent, extent)
        self._free = [page for page in self._free if page // self._per_extent not in idle]
        heapq.heapify(self._free)
        return n_bytes

    def check_integrity(self) -> None:
        """Free and used pages are all pages of the extents that are there, each once."""
        present = {page for extent in self._extents for page in self._pages(extent)}
        assert len(set(self._free)) == len(self._free)
        assert not self._references.keys() & set(self._free)
        assert self._references.keys() | set(self._free) == present
        assert all(count > 0 for count in self._references.values())
        assert set(self._absent) ^ self._extents.keys() == set(range(self._n_known))

    def _pages(self, extent: int) -> range:
        return range(extent * self._per_extent, min((extent + 1) * self._per_extent, self.n_pages))

    def _grow(self) -> bool:
        extent = self._absent[0] if self._absent else self._n_known
        pages = self._pages(extent)
        if not pages:
            return False
        try:
            memory = aligned(len(pages) * self.page_bytes)
        except (MemoryError, ValueError):  # more than there is, or than can be counted
            return False
        if self._absent:
            heapq.heappop(self._absent)
        else:
            self._n_known += 1
        self._extents[extent] = memory
        for page in pages:
            heapq.heappush(self._free, page)
        return True
