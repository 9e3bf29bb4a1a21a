"""Where each page of the tree is: in memory, on disk, or both; and what goes when there is no room.

Owns the agreement of pool, tree and store: a node in the tree has a page in memory or an entry on disk; the tree holds
one reference on each of its pages, and an order to the writer another until it is done, so that neither page can be
written or freed under them.
"""

from dataclasses import dataclass

from chenxing.kvcache.index import Add
from chenxing.kvcache.pages import PagePool
from chenxing.kvcache.radix import FULL, Node, RadixTree
from chenxing.kvcache.restore import restore
from chenxing.kvcache.store import Changes, Store
from chenxing.kvcache.writer import Put


@dataclass
class Counts:
    """Pages: brought from disk to memory, found damaged, evicted from memory, evicted from disk."""

    restored: int = 0
    damaged: int = 0
    evicted_ram: int = 0
    evicted_disk: int = 0


class Tiers:
    """Moves pages between memory and disk. One thread: the engine's; the store's writer is behind `store`."""

    def __init__(self, pool: PagePool, store: Store | None) -> None:
        self.pool, self.store, self.tree = pool, store, RadixTree()
        self.counts = Counts()
        self._by_id: dict[int, Node] = {}  # nodes that have an entry
        self._jobs: set[Put] = set()  # orders that were not collected

    # ---- memory ----

    def allocate(self) -> int | None:
        """A private page with one reference, evicting the least recently used if need be; None if all are in use."""
        while (page := self.pool.allocate()) is None:
            if not self._evict_from_memory():
                return None
        return page

    def insert(self, parent: Node, key: bytes, page: int) -> Node:
        """The node of these tokens with a page in memory. If its page is not `page`, an equal one was there before."""
        node = parent.children.get(key)
        if node is None:
            node = self.tree.insert(parent, key)
        if node.page is None:
            self.pool.retain(page)
            self.tree.set_page(node, page)
        if self.store is None or not self.store.can_write:
            self._supersede(node)  # else when it is sealed
        return node

    def remove(self, top: Node) -> None:
        """Take a node and all below it out of memory, disk and tree. Nobody uses them."""
        for node in self.tree.walk(top):
            node.job = None  # if it is sealed yet, `collect` drops it
            if node.page is not None:
                self.pool.release([node.page])
                self.tree.set_page(node, None)
            if node.entry is not None:
                entry = node.entry
                self._unlink(node)
                if self.store:
                    self.store.drop(entry)
            self.tree.remove(node)

    def bring(self, nodes: list[Node]) -> tuple[int, bool]:
        """Have pages in memory for these nodes of one path, in order.

        -> how many at the front have one and are retained for the caller; whether one was damaged, and is gone
        """
        missing: list[tuple[int, Node, int]] = []
        held = 0
        for node in nodes:
            if node.page is not None:
                self.pool.retain(node.page)
        for i, node in enumerate(nodes):
            if node.page is None:
                page = self.allocate()
                if page is None:
                    break
                missing.append((i, node, page))
            held = i + 1
        self.pool.release([node.page for node in nodes[held:] if node.page is not None])
        sound = self._restore([(node, page) for _, node, page in missing])
        for (i, node, page), ok in zip(missing, sound, strict=True):
            if i >= held:
                self.pool.release([page])  # behind a damaged one
            elif ok:
                self.tree.set_page(node, page)
                self.pool.retain(page)
            else:
                self.pool.release([page, *(n.page for n in nodes[i + 1 : held] if n.page is not None)])
                held = i
                damaged = node
        if not all(sound):
            self.remove(damaged)
        return held, not all(sound)

    def private_copy(self, node: Node) -> tuple[int | None, bool]:
        """A private page with a node's content, or None if there is none to be had; whether the node was damaged."""
        self.tree.lock(node)
        page = self.allocate()
        self.tree.release(node)
        if page is None:
            return None, False
        if node.page is not None:
            self.pool.bytes_of(page)[:] = self.pool.bytes_of(node.page)
        elif self._restore([(node, page)]) != [True]:
            self.pool.release([page])
            self.remove(node)
            return None, True
        return page, False

    def _restore(self, pages: list[tuple[Node, int]]) -> list[bool]:
        if not pages:
            return []
        assert self.store
        wanted: list[tuple[Add, memoryview]] = []
        for node, page in pages:
            assert node.entry
            wanted.append((node.entry, self.pool.bytes_of(page).data))
        sound = restore(self.store, wanted)
        self.counts.restored += sum(sound)
        self.counts.damaged += len(sound) - sum(sound)
        return sound

    def _evict_from_memory(self) -> bool:
        """Free one page that only the tree has: of a node that is on disk as well, or of a leaf, which goes."""
        for node in self.tree.in_memory:
            assert node.page is not None
            if self.pool.references(node.page) > 1:
                continue
            if node.entry is not None:
                self.pool.release([node.page])
                self.tree.set_page(node, None)
            elif not node.children and not node.n_locks:
                self.remove(node)
            else:
                continue
            self.counts.evicted_ram += 1
            return True
        return self._wait_for_writer()

    def _wait_for_writer(self) -> bool:
        """Pages on their way to the disk can be evicted when they are there."""
        if not self._jobs:
            return False
        assert self.store
        n_jobs = len(self._jobs)
        self.store.flush()
        self.collect()
        return len(self._jobs) < n_jobs

    # ---- disk ----

    def seal(self, node: Node) -> None:
        """Order a node, and those before it that are not on disk, to be written. Does nothing if that cannot be."""
        store = self.store
        if store is None:
            return
        self.collect()
        if not store.can_write:
            return
        chain = []
        while node is not self.tree.root and node.entry is None and node.job is None:
            chain.append(node)
            assert node.parent
            node = node.parent
        for child in reversed(chain):
            above = node.entry or node.job
            assert child.page is not None
            data = self.pool.bytes_of(child.page).data
            while (job := store.put(above.id if above else 0, child.key, data, child.page, child)) is None:
                if not self._evict_from_disk(node):
                    return
            self.pool.retain(child.page)
            self._jobs.add(job)
            child.job, node = job, child

    def collect(self) -> None:
        """Take note of what the writer has done."""
        if self.store is None:
            return
        for job in self.store.finished():
            self.pool.release([job.page])
            self._jobs.remove(job)
            node = job.node
            if node.job is job:
                node.job = None
                if job.sealed is not None:
                    self._link(node, job.sealed)
                    self._supersede(node)
            elif job.sealed is not None:
                self.store.drop(job.sealed)

    def refresh(self) -> None:
        """Bring the tree up to date with the store: after opening, and with what other processes did."""
        if self.store is None:
            return
        self.collect()
        changes = self.store.refresh()
        if changes is not None:
            self.collect()
            self._apply(changes)
        while self.store.can_write and self.store.room < 0 and self._evict_from_disk(self.tree.root):
            pass
        self.store.tidy()

    def check_integrity(self) -> None:
        self.pool.check_integrity()
        self.tree.check_integrity()
        for node in self.tree.walk():
            assert node.page is not None or node.entry is not None
            assert node.page is None or self.pool.references(node.page) >= 1 + (node.job is not None)
            assert node.entry is None or self._by_id[node.entry.id] is node
        assert len(self._by_id) == len(self.tree.on_disk)
        if self.store:
            assert {node.entry.id for node in self._by_id.values() if node.entry} <= self.store.adds.keys()
            self.store.check_integrity()

    def ordered_pages(self) -> list[int]:
        """The pages on which orders to the writer hold a reference."""
        return [job.page for job in self._jobs]

    def _evict_from_disk(self, kept: Node) -> bool:
        """Free one slot: of the least recently used node with nothing on disk below it, other than `kept`."""
        assert self.store
        for node in self.tree.on_disk:
            if node is kept or node.job or any(c.entry or c.job for c in node.children.values()):
                continue
            assert node.entry
            entry = node.entry
            self._unlink(node)
            self.store.drop(entry)
            if node.page is None:
                self.remove(node)
            self.counts.evicted_disk += 1
            return True
        return False

    def _supersede(self, node: Node) -> None:
        """Remove the partial pages whose tokens this one begins with: it says all that they said."""
        assert node.parent
        for shorter in self.tree.prefixes(node.parent, node.key):
            if not shorter.n_locks:
                self.remove(shorter)

    def _link(self, node: Node, entry: Add) -> None:
        self.tree.set_entry(node, entry)
        self._by_id[entry.id] = node

    def _unlink(self, node: Node) -> None:
        assert node.entry
        del self._by_id[node.entry.id]
        self.tree.set_entry(node, None)

    def _apply(self, changes: Changes) -> None:
        for add in changes.gone:
            node = self._by_id.get(add.id)
            if node is not None and node.entry == add:
                self._unlink(node)
                if node.page is None:
                    self.remove(node)
        for add in sorted(changes.new, key=lambda add: add.id):  # parents first
            self._attach(add)
        rank = {add.id: i for i, add in enumerate(changes.new)}
        for add in sorted(changes.new, key=lambda add: -add.id):  # a page was used when one below it was
            rank[add.parent] = max(rank.get(add.parent, 0), rank[add.id])
        for add in sorted(changes.new, key=lambda add: (rank[add.id], -add.id)):
            node = self._by_id.get(add.id)
            if node is not None:
                self.tree.on_disk.move_to_end(node)

    def _attach(self, add: Add) -> None:
        assert self.store
        parent = self._by_id.get(add.parent) if add.parent else self.tree.root
        if parent is None or not (parent is self.tree.root or len(parent.key) == FULL):
            self.store.drop(add)
            return
        node = parent.children.get(add.key) or self.tree.insert(parent, add.key)
        if node.entry is not None or node.job is not None:
            self.store.drop(add)
        else:
            self._link(node, add)
