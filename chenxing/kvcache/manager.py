"""The KV cache as the engine sees it: sequences begin with the longest prefix that is known, in memory or on disk.

A request's life: `begin` brings and locks what is known of its tokens; `reserve` gives pages for the next ones, the
kernels write them by the addresses in `table`, `commit` says that they are computed, which seals full pages; `release`
keeps all of it for the next request, process or boot. Sources: docs/PROVENANCE.md, "RadixPagedKVCache".

Threads: one, the engine's, calls everything here. The store's writer thread sees only orders and files; pages that it
reads are retained until the engine's thread has collected its answer, and shared pages are never written.
"""

import time
from collections.abc import Sequence as Ids
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chenxing.kernels.layout import PAGE
from chenxing.kvcache.files import Files
from chenxing.kvcache.pages import EXTENT_BYTES, PagePool
from chenxing.kvcache.radix import FULL, ID_BYTES, Node, encode
from chenxing.kvcache.sequence import Sequence
from chenxing.kvcache.store import Store
from chenxing.kvcache.tiers import Tiers


@dataclass(frozen=True)
class CacheStats:
    """What the cache holds now, and what it did since it was made.

    n_pages_ram, n_pages_disk      pages in memory and in use there, sealed pages on disk
    n_bytes_ram, n_bytes_disk      memory taken from the system, size of the sealed pages
    n_tokens                       tokens that a request could reuse
    n_hits, n_misses               requests that began with something, and with nothing
    n_tokens_reused                by all requests together
    n_restored, n_damaged          pages brought from disk; pages that were not what was sealed, and were dropped
    n_evicted_ram, n_evicted_disk  pages that had to go
    is_writer                      this process seals its pages on disk
    """

    n_pages_ram: int
    n_pages_disk: int
    n_bytes_ram: int
    n_bytes_disk: int
    n_tokens: int
    n_hits: int
    n_misses: int
    n_tokens_reused: int
    n_restored: int
    n_damaged: int
    n_evicted_ram: int
    n_evicted_disk: int
    is_writer: bool


class KVCache:
    """Pages, tree and store of one model. Not thread-safe.

    page_bytes   one page: PAGE tokens, all layers
    ram_bytes    at most this much memory for pages, at least one page
    folder       of all stores; each fingerprint has its own below it. None: memory only
    fingerprint  everything that the bits of KV depend on, as JSON values: the model file's identity, architecture, RoPE
                 and context settings, KV dtype, numerics version. "name" may be among them, for people
    disk_bytes   at most this much for all stores below folder
    """

    def __init__(
        self,
        page_bytes: int,
        *,
        ram_bytes: int,
        folder: Path | None,
        fingerprint: dict[str, Any],
        disk_bytes: int,
        extent_bytes: int = EXTENT_BYTES,
        files: Files | None = None,
    ) -> None:
        pool = PagePool(max(1, ram_bytes // page_bytes), page_bytes, extent_bytes)
        store = Store(folder, page_bytes, fingerprint, disk_bytes, files) if folder is not None else None
        self._tiers = Tiers(pool, store)
        self._sequences: set[Sequence] = set()
        self._n_hits = self._n_misses = self._n_reused = 0
        self._tiers.refresh()

    def match(self, ids: Ids[int]) -> int:
        """How many tokens of a request would be reused, should they be sound on disk. Changes nothing."""
        return self._tiers.tree.match(encode(ids[:-1])).n_tokens

    def begin(self, ids: Ids[int], n_ctx: int) -> Sequence:
        """A sequence that starts with the longest sound prefix of ids, at most all but the last.

        Its `n_cached` tokens are the first of ids; the others are to be computed and committed.
        """
        assert 0 < len(ids) <= n_ctx
        self._tiers.refresh()
        sequence = Sequence(self._tiers, self._sequences, n_ctx)
        found = self._tiers.tree.match(encode(ids[:-1]))
        known = [*found.nodes, found.partial] if found.partial else found.nodes
        absent = {node for node in known if node.page is None}
        while not self._start(sequence, ids, absent):
            pass  # something was damaged, and is gone: the prefix is shorter now
        self._n_hits += sequence.n_cached > 0
        self._n_misses += sequence.n_cached == 0
        self._n_reused += sequence.n_cached
        return sequence

    def begin_private(self, n_ctx: int) -> Sequence:
        """An empty sequence that reuses nothing, and of which nothing is kept."""
        return Sequence(self._tiers, self._sequences, n_ctx, private=True)

    def forget(self, ids: Ids[int]) -> int:
        """Take a conversation out of memory and disk, from its end back to where another one shares it or a sequence
        uses it. -> how many of its tokens are gone"""
        self._tiers.refresh()
        tree, key, n_before = self._tiers.tree, encode(ids), self.match([*ids, 0])
        path = [tree.root, *tree.match(key).nodes]
        for depth in reversed(range(len(path))):
            node, rest = path[depth], key[depth * FULL : (depth + 1) * FULL]
            for end in tree.prefixes(node, rest + bytes(ID_BYTES)):  # where it was left for a while, and its own end
                if not end.n_locks and not end.children:
                    self._tiers.remove(end)
            if node is tree.root or node.children or node.n_locks:
                break
            self._tiers.remove(node)
        return n_before - self.match([*ids, 0])

    @property
    def n_pages(self) -> int:
        """Pages that there may be in memory."""
        return self._tiers.pool.n_pages

    @property
    def n_free(self) -> int:
        """Those that no sequence uses: what sequences may still reserve, at the price of evictions."""
        return self.n_pages - len({page for sequence in self._sequences for page in sequence.held_pages()})

    def flush(self, seconds: float | None = None) -> None:
        """Wait until all that was committed is in the files, at most so many seconds if given."""
        if self._tiers.store:
            self._tiers.store.flush(seconds)
            self._tiers.collect()

    def trim(self) -> int:
        """Give memory that no page uses back to the system. -> bytes."""
        return self._tiers.pool.trim()

    def close(self, seconds: float | None = None) -> None:
        """Finish writing, and let others write. Sequences must be released before.

        seconds: after so many, what is not written yet is forgotten; None: never
        """
        assert not self._sequences, "sequences are in use"
        if self._tiers.store:
            self._tiers.store.tidy()
            start = time.monotonic()
            self.flush(seconds)
            left = None if seconds is None else max(0.0, seconds - (time.monotonic() - start))
            self._tiers.store.close(left)

    def stats(self) -> CacheStats:
        tiers = self._tiers
        tree, pool, counts = tiers.tree, tiers.pool, tiers.counts
        return CacheStats(
            n_pages_ram=pool.n_used,
            n_pages_disk=len(tree.on_disk),
            n_bytes_ram=pool.n_bytes,
            n_bytes_disk=len(tree.on_disk) * pool.page_bytes,
            n_tokens=sum(node.n_tokens for node in tree.walk()),
            n_hits=self._n_hits,
            n_misses=self._n_misses,
            n_tokens_reused=self._n_reused,
            n_restored=counts.restored,
            n_damaged=counts.damaged,
            n_evicted_ram=counts.evicted_ram,
            n_evicted_disk=counts.evicted_disk,
            is_writer=tiers.store is not None and tiers.store.can_write,
        )

    def check_integrity(self) -> None:
        """Pool, tree, store and sequences agree, and every reference has a holder (law L6)."""
        tiers = self._tiers
        tiers.check_integrity()
        held: dict[int, int] = {}
        orders = tiers.ordered_pages()
        for page in [*(n.page for n in tiers.tree.in_memory if n.page is not None), *orders]:
            held[page] = held.get(page, 0) + 1
        for sequence in self._sequences:
            sequence.check_integrity()
            for page in sequence.held_pages():
                held[page] = held.get(page, 0) + 1
        assert len(held) == tiers.pool.n_used
        assert all(tiers.pool.references(page) == n for page, n in held.items())
        n_locks = sum(node.n_locks for node in [tiers.tree.root, *tiers.tree.walk()])
        assert n_locks == len(self._sequences)

    def _start(self, sequence: Sequence, ids: Ids[int], absent: set[Node]) -> bool:
        """Give the sequence the longest prefix of ids. -> False, and nothing done, if part of it was damaged.

        absent: nodes that were not in memory when the sequence began
        """
        tiers = self._tiers
        found = tiers.tree.match(encode(ids[:-1]))
        held, is_damaged = tiers.bring(found.nodes)
        nodes = found.nodes[:held]
        pages = [node.page for node in nodes if node.page is not None]
        if is_damaged:
            tiers.pool.release(pages)
            return False
        tail = None
        if found.partial is not None and found.partial.parent is not None and held == len(found.nodes):
            # it may have been evicted for the pages before it
            tail, is_damaged = tiers.private_copy(found.partial)
            if is_damaged:
                tiers.pool.release(pages)
                return False
        n = held * PAGE + (found.n_partial if tail is not None else 0)
        sequence.adopt(nodes, tail, list(ids[:n]))
        sequence.n_from_disk = PAGE * sum(node in absent for node in nodes)
        if tail is not None and found.partial in absent:
            sequence.n_from_disk += found.n_partial
        used = nodes[-1] if nodes else tiers.tree.root
        if tail is not None and found.partial is not None:
            used = found.partial
        tiers.tree.touch(used)
        if tiers.store and (sealed := used.entry or used.job) is not None:
            tiers.store.use(sealed, n)
        return True
