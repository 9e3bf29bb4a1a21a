"""Pages of keys and values: the pool that owns their memory, and one sequence's list of them.

A page holds PAGE consecutive tokens of one sequence, all layers. Conservation (law L6): every page is free or in use,
never both; reference counts never fall below zero; a page that is shared is not written.
"""

from collections.abc import Iterable

import numpy as np

from chenxing.errors import OutOfMemoryError
from chenxing.kernels.layout import PAGE
from chenxing.kernels.memory import address, aligned


class PagePool:
    """n_pages pages of page_bytes, zeroed: the system gives memory to a page when it is first written.

    Mutated by allocate, retain and release only. Raises OutOfMemoryError where the address space cannot be had.
    """

    def __init__(self, n_pages: int, page_bytes: int) -> None:
        assert n_pages > 0 and page_bytes > 0
        self.n_pages, self.page_bytes = n_pages, page_bytes
        try:
            self._memory = aligned(n_pages * page_bytes)
        except (MemoryError, ValueError, OverflowError) as e:  # more than there is, or than can be counted
            gib = n_pages * page_bytes / 2**30
            raise OutOfMemoryError(f"{gib:.1f} GiB for a context of {n_pages * PAGE} tokens: use a smaller -c") from e
        self._base = address(self._memory)
        self._references = np.zeros(n_pages, np.int32)
        self._free = list(range(n_pages - 1, -1, -1))

    def address(self, page: int) -> int:
        """Where a page is in memory."""
        return self._base + page * self.page_bytes

    @property
    def n_free(self) -> int:
        return len(self._free)

    def allocate(self) -> int | None:
        """A page with one reference, or None if all are in use."""
        if not self._free:
            return None
        page = self._free.pop()
        assert self._references[page] == 0
        self._references[page] = 1
        return page

    def retain(self, page: int) -> None:
        """One more reference to a page in use."""
        assert self._references[page] > 0, f"page {page} is free"
        self._references[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """One reference less to each; the last one frees the page."""
        for page in pages:
            assert self._references[page] > 0, f"page {page} is released twice"
            self._references[page] -= 1
            if not self._references[page]:
                self._free.append(page)

    def check_integrity(self) -> None:
        """Free and used pages are all pages, each once."""
        assert len(set(self._free)) == len(self._free)
        assert all(self._references[p] == 0 for p in self._free)
        assert np.count_nonzero(self._references) + len(self._free) == self.n_pages


class Sequence:
    """The tokens of one sequence whose KV is in pages, in order.

    Invariants: `ids` are the tokens that were computed; pages cover them and nothing else is held.
    """

    def __init__(self, pool: PagePool, n_ctx: int) -> None:
        self._pool = pool
        self.n_ctx = n_ctx
        self.ids: list[int] = []
        self.pages = np.zeros(-(-n_ctx // PAGE), np.int64)  # addresses; entries past the reserved ones mean nothing
        self._held: list[int] = []

    def reserve(self, n_tokens: int) -> None:
        """Hold pages for n_tokens in all. Raises OutOfMemoryError if the pool has too few."""
        assert n_tokens <= self.n_ctx
        while len(self._held) * PAGE < n_tokens:
            page = self._pool.allocate()
            if page is None:
                raise OutOfMemoryError(f"all {self._pool.n_pages} KV pages are in use")
            self.pages[len(self._held)] = self._pool.address(page)
            self._held.append(page)

    def truncate(self, n_tokens: int) -> None:
        """Forget all tokens from the n-th on and release what only they needed."""
        del self.ids[n_tokens:]
        keep = -(-n_tokens // PAGE)
        self._pool.release(self._held[keep:])
        del self._held[keep:]
