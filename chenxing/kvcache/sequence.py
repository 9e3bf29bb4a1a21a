"""One sequence of tokens and the pages of its KV."""

from collections.abc import Iterable

import numpy as np

from chenxing.kernels.layout import PAGE
from chenxing.kvcache.radix import FULL, ID_BYTES, Node, encode
from chenxing.kvcache.tiers import Tiers


class Sequence:
    """Tokens whose KV is computed, the pages that hold it, and room for the next ones. Made by KVCache.begin.

    ids       the tokens, in order
    n_cached  how many of them were found when the sequence began, n_from_disk of these only on disk
    table     i64[pages of n_ctx] addresses of pages; entries past the reserved ones mean nothing. It never moves.

    A private sequence has nothing to do with the tree: nothing of it is found by others, sealed or kept.

    Invariants: the sequence holds one reference on each page of its table; its first pages are those of a path in the
    tree, whose deepest node it locks; it writes only to pages on which nobody else has a reference.
    Released sequences cannot be used. One thread, the cache's.
    """

    def __init__(self, tiers: Tiers, live: set["Sequence"], n_ctx: int, *, private: bool = False) -> None:
        self.n_ctx, self.n_cached, self.n_from_disk = n_ctx, 0, 0
        self._private = private
        self.ids: list[int] = []
        self.table = np.zeros(-(-n_ctx // PAGE), np.int64)
        self._tiers, self._live = tiers, live
        self._pages: list[int] = []
        self._nodes: list[Node] = []  # of the first pages
        self._locked = tiers.tree.root
        tiers.tree.lock(self._locked)
        live.add(self)

    @property
    def n_tokens(self) -> int:
        return len(self.ids)

    def adopt(self, nodes: list[Node], tail: int | None, ids: list[int]) -> None:
        """Start with these nodes' pages, on which a reference is given over, and a private page of the last tokens."""
        assert not self._pages and len(ids) // PAGE == len(nodes) and bool(len(ids) % PAGE) == (tail is not None)
        for node in nodes:
            assert node.page is not None
            self._hold(node.page)
        if tail is not None:
            self._hold(tail)
        self._nodes, self.ids, self.n_cached = list(nodes), ids, len(ids)
        self._move_lock()

    def reserve(self, n_tokens: int) -> bool:
        """Have private room for all tokens up to n_tokens in all. -> False, and nothing changed, if memory is used up.

        Copies the page of the last tokens if somebody else uses it too, for it will be written.
        """
        assert n_tokens <= self.n_ctx and self in self._live
        tail = len(self.ids) // PAGE
        shared = tail < len(self._pages) and n_tokens > len(self.ids) and self._is_shared(self._pages[tail])
        new: list[int] = []
        for _ in range(max(0, -(-n_tokens // PAGE) - len(self._pages)) + shared):
            page = self._tiers.allocate()
            if page is None:
                self._tiers.pool.release(new)
                return False
            new.append(page)
        if shared:
            self._replace(tail, new.pop(0))
        for page in new:
            self._hold(page)
        return True

    def commit(self, ids: Iterable[int]) -> None:
        """These tokens' KV is in the reserved pages now. Pages that are full go into the tree and are sealed."""
        assert not any(map(self._is_shared, self._pages[len(self.ids) // PAGE :])), "written without `reserve`"
        self.ids += ids
        assert len(self.ids) <= len(self._pages) * PAGE, "tokens without a page"
        if self._private or len(self._nodes) == len(self.ids) // PAGE:
            return
        for i in range(len(self._nodes), len(self.ids) // PAGE):
            node = self._insert(encode(self.ids[i * PAGE : (i + 1) * PAGE]), self._pages[i])
            assert node.page is not None
            if node.page != self._pages[i]:  # somebody else computed the same: the same bits (law L2)
                self._tiers.pool.retain(node.page)
                self._tiers.pool.release([self._pages[i]])
                self._pages[i] = node.page
                self.table[i] = self._tiers.pool.address(node.page)
            self._nodes.append(node)
        self._move_lock()
        self._tiers.seal(self._nodes[-1])

    def truncate(self, n_tokens: int) -> None:
        """Forget the tokens from the n-th on. Nothing is copied or cleared; what only they needed is released."""
        assert n_tokens >= 0 and self in self._live
        del self.ids[n_tokens:]
        n_pages = -(-len(self.ids) // PAGE)
        self._tiers.pool.release(self._pages[n_pages:])
        del self._pages[n_pages:]
        if len(self._nodes) > len(self.ids) // PAGE:
            del self._nodes[len(self.ids) // PAGE :]
            self._move_lock()
        self.n_cached = min(self.n_cached, len(self.ids))

    def fork(self) -> "Sequence":
        """Another sequence with the same tokens, which shares all pages until one of the two writes to the last."""
        other = Sequence(self._tiers, self._live, self.n_ctx, private=self._private)
        for page in self._pages[: -(-len(self.ids) // PAGE)]:
            self._tiers.pool.retain(page)
            other._hold(page)
        other._nodes, other.ids, other.n_cached = list(self._nodes), list(self.ids), len(self.ids)
        other._move_lock()
        return other

    def release(self, keep: bool = True) -> None:
        """End the sequence. Its full pages stay in the cache; the tokens after them do if `keep`."""
        assert self in self._live, "a sequence is released twice"
        tree = self._tiers.tree
        deepest = self._nodes[-1] if self._nodes else tree.root
        tail = encode(self.ids[len(self._nodes) * PAGE :])
        if keep and tail and not self._private:
            known, n_shared = deepest.closest(tail)
            if known is None or n_shared * ID_BYTES < len(tail):
                known = self._insert(tail, self._pages[len(self._nodes)])
                self._tiers.seal(known)
            tree.touch(known)
        else:
            tree.touch(deepest)
        self._tiers.pool.release(self._pages)
        tree.release(self._locked)
        self._live.remove(self)
        self._pages, self._nodes = [], []

    def check_integrity(self) -> None:
        pool, tree = self._tiers.pool, self._tiers.tree
        assert [pool.address(page) for page in self._pages] == self.table[: len(self._pages)].tolist()
        assert len(self.ids) <= len(self._pages) * PAGE
        assert len(self._nodes) == (0 if self._private else len(self.ids) // PAGE)
        above = tree.root
        for i, node in enumerate(self._nodes):
            assert node.parent is above and above.children[node.key] is node and len(node.key) == FULL
            assert node.page == self._pages[i] and node.key == encode(self.ids[i * PAGE : (i + 1) * PAGE])
            above = node
        assert self._locked is above and above.n_locks > 0

    def held_pages(self) -> list[int]:
        return self._pages

    def _insert(self, key: bytes, page: int) -> Node:
        return self._tiers.insert(self._nodes[-1] if self._nodes else self._tiers.tree.root, key, page)

    def _is_shared(self, page: int) -> bool:
        return self._tiers.pool.references(page) > 1

    def _hold(self, page: int) -> None:
        self.table[len(self._pages)] = self._tiers.pool.address(page)
        self._pages.append(page)

    def _replace(self, i: int, page: int) -> None:
        """Put a private copy in the place of a shared page."""
        pool = self._tiers.pool
        pool.bytes_of(page)[:] = pool.bytes_of(self._pages[i])
        pool.release([self._pages[i]])
        self._pages[i], self.table[i] = page, pool.address(page)

    def _move_lock(self) -> None:
        deepest = self._nodes[-1] if self._nodes else self._tiers.tree.root
        self._tiers.tree.lock(deepest)
        self._tiers.tree.release(self._locked)
        self._locked = deepest
