"""One model's KV on disk: a folder with a data file of pages and an index that says what they are.

One process writes, others read along; whoever has the lock is the writer, and a reader becomes one when it can. Any of
the files may be damaged, cut or gone at any moment, and the writer of another process may use slots anew: what is read
is a private copy that must have the digest of the index (law L5). Nothing here raises OSError; the first failure to
write is warned of, once, and from then on the cache lives in memory. Format: docs/formats/kv-store.md.
"""

import contextlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xxhash import xxh3_128_digest, xxh3_128_hexdigest

from chenxing.kvcache import index
from chenxing.kvcache.catalog import make_room
from chenxing.kvcache.files import Files
from chenxing.kvcache.index import Add, Drop, Header, Use
from chenxing.kvcache.loading import IndexReader, Loaded, drop_unreachable
from chenxing.kvcache.lock import WriterLock
from chenxing.kvcache.radix import Node
from chenxing.kvcache.slots import Slots
from chenxing.kvcache.writer import Cut, Punch, Put, StoreFiles, Writer, new_generation

BLOCK = 4096  # what a file system gives to files
ORDERS_PER_LOOK = 64  # at what other processes' stores take

_log = logging.getLogger("chenxing.kvcache")


@dataclass(frozen=True)
class Changes:
    """What `refresh` found: records that no longer hold, and new ones, least recently used first."""

    gone: list[Add]
    new: list[Add]


class Store:
    """The disk's side of the cache. One thread, which is not the writer's; `read` may be called from several.

    adds   the sealed pages that this process knows of, by id
    Invariants: a slot that is not free belongs to one record or one order; a record is dropped before its slot is used.
    """

    def __init__(
        self, root: Path, page_bytes: int, fingerprint: dict[str, Any], disk_bytes: int, files: Files | None = None
    ) -> None:
        self.root, self.page_bytes, self.disk_bytes = root, page_bytes, disk_bytes
        self.fingerprint = fingerprint
        self.folder = root / xxh3_128_hexdigest(f"{page_bytes} {index.identity(fingerprint)}".encode())
        self.adds: dict[int, Add] = {}
        self._files = files or Files()
        self._lock: WriterLock | None = None
        self._writer: Writer | None = None
        self._pages_fd: int | None = None
        self._slots = Slots()
        self._last_id = 0
        self._foreign_bytes = 0
        self._index = IndexReader(self._files, self.folder / "index", page_bytes, fingerprint)
        self._lost: list[Put] = []
        self._is_warned = False
        self._closed = False

    @property
    def can_write(self) -> bool:
        return self._writer is not None and self._writer.error is None

    @property
    def n_bytes(self) -> int:
        """Bytes of the sealed pages and those on their way."""
        return len(self._slots.taken if self._writer else self.adds) * self.page_bytes

    @property
    def room(self) -> int:
        """Bytes that may be added under the limit; negative if it is exceeded."""
        index_bytes = (self._writer.state.end // BLOCK + 2) * BLOCK if self._writer else 0  # with records on their way
        return self.disk_bytes - self._foreign_bytes - index_bytes - self.n_bytes

    # ---- what others do ----

    def refresh(self) -> Changes | None:
        """See what other processes did since the last time: at first everything. Takes the writer's role if it can."""
        if self._closed or (self._writer and not self._is_lost()):
            return None
        if self._writer:
            self._abandon()
        if self._lock is None and not self._is_warned:
            self._lock = self._try_lock()
        if self._lock is not None:
            loaded = self._index.load()
            self._start_writing(loaded)
        elif (changed := self._index.load_if_changed()) is not None:
            loaded = changed
        else:
            return None
        self._open_pages()
        before, self.adds = self.adds, dict(loaded.contents.adds)
        gone = [add for add in before.values() if self.adds.get(add.id) != add]
        return Changes(gone, [add for add in self.adds.values() if before.get(add.id) != add])

    def _is_lost(self) -> bool:
        """Somebody removed the folder under the writer."""
        assert self._lock is not None
        return not self._lock.is_at(self.folder / "lock")

    def _try_lock(self) -> WriterLock | None:
        try:
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)  # for parents the mode does not hold
            self.folder.mkdir(exist_ok=True, mode=0o700)
            return WriterLock.acquire(self._files, self.folder / "lock")
        except OSError as error:
            self._warn(error)
            return None

    # ---- reading ----

    def read(self, add: Add, memory: memoryview) -> bool:
        """Copy a page to memory u8[page_bytes]. -> whether it is what was sealed; if not, memory is zeroed."""
        if self._pages_fd is not None:
            try:
                n = self._files.read(self._pages_fd, memory, add.slot * self.page_bytes)
                if n == self.page_bytes and xxh3_128_digest(memory) == add.digest:
                    return True
            except (OSError, OverflowError):
                pass
        memory[:] = bytes(len(memory))
        return False

    def _open_pages(self) -> None:
        self._close_pages()
        with contextlib.suppress(OSError):  # without it every page is a miss
            self._pages_fd = self._files.open_readable(self.folder / "pages")

    def _close_pages(self) -> None:
        if self._pages_fd is not None:
            self._files.close(self._pages_fd)
            self._pages_fd = None

    # ---- writing ----

    def put(self, parent: int, key: bytes, memory: memoryview, page: int, node: Node) -> Put | None:
        """Order a page to be sealed. memory must not change until `finished` returns the order. None: there is no room.

        parent: id of the page before it, which is sealed or ordered; 0: none
        """
        assert self._writer is not None
        is_short = self.room < self.page_bytes and self._foreign_bytes
        if is_short or self._last_id % ORDERS_PER_LOOK == 0:
            self._foreign_bytes = make_room(self.root, self.folder, self.disk_bytes, self.page_bytes)
        if self.room < self.page_bytes:
            return None
        self._last_id += 1
        order = Put(self._last_id, parent, self._slots.take(), key, memory, page, node)
        self._writer.submit(order)
        return order

    def drop(self, add: Add) -> None:
        """Forget a sealed page; the writer frees its slot."""
        if self.adds.pop(add.id, None) is None:
            return
        if self._writer:
            self._slots.give(add.slot)
            self._writer.submit(Drop(add.id))

    def use(self, page: Add | Put, n_tokens: int) -> None:
        """Note that a request reused n_tokens, the last of them in this page."""
        if self._writer:
            self._writer.submit(Use(page.id, n_tokens))

    def finished(self) -> list[Put]:
        """Orders that came to their end since the last call. Those that failed gave their slots back."""
        done, self._lost = self._lost, []
        ended: list[Put] = []
        while self._writer and self._writer.finished:
            ended.append(self._writer.finished.popleft())
        for order in ended:
            if order.sealed is not None:
                self.adds[order.id] = order.sealed
            else:
                self._slots.give(order.slot)
        if self._writer and self._writer.error and not self._is_warned:
            self._warn(self._writer.error)
        return done + ended

    def tidy(self) -> None:
        """Give the space of free slots back to the system."""
        if self._writer and self._slots.loose:
            shorter, holes = self._slots.settle()
            if shorter:
                self._writer.submit(Cut(self._slots.n))
            for slot in holes:
                self._writer.submit(Punch(slot))

    def flush(self, seconds: float | None = None) -> None:
        """Wait until every order is carried out, at most so many seconds if given; `finished` has them then."""
        if self._writer:
            self._writer.flush(seconds)

    def close(self, seconds: float | None = None) -> None:
        """Finish writing, within some seconds if given, and let go of the lock. The store is empty afterwards."""
        self._closed = True
        if self._writer:
            self._stop_writing(seconds)
        self._close_pages()
        self.adds = {}

    def check_integrity(self) -> None:
        self._slots.check_integrity()
        if self._writer:
            slots = [add.slot for add in self.adds.values()]
            assert len(set(slots)) == len(slots) and self._slots.taken >= set(slots)

    def _start_writing(self, loaded: Loaded) -> None:
        """Make the index sound and open for appending, and see that the limits hold."""
        header = loaded.header or Header(self.fingerprint, self.page_bytes, new_generation())
        contents, end = loaded.contents, loaded.end
        opened: list[int] = []
        try:
            for name in ("pages", "index"):
                opened.append(self._files.open_writable(self.folder / name))
            if loaded.size > end:
                self._files.truncate(opened[1], end)
            if loaded.header is None:
                head = index.pack_header(header)
                self._files.write(opened[1], head, 0)
                end = len(head)
            n_slots = os.fstat(opened[0]).st_size // self.page_bytes
        except OSError as error:
            for fd in opened:
                self._files.close(fd)
            self._warn(error)
            assert self._lock is not None
            self._lock.release()
            self._lock = None
            return
        for add in [add for add in contents.adds.values() if add.slot >= n_slots]:
            contents.apply(Drop(add.id))  # the data file was cut
        drop_unreachable(contents)
        self._last_id = contents.last_id
        self._slots = Slots(contents.slots, n_slots)
        state = StoreFiles(self.folder, header, opened[0], opened[1], contents, end)
        self._writer = Writer(self._files, state)
        self._foreign_bytes = make_room(self.root, self.folder, self.disk_bytes, 0)

    def _abandon(self) -> None:
        """The files are gone: what was sealed, and what was ordered, is not."""
        writer = self._writer
        assert writer
        self._stop_writing()
        for order in writer.finished:
            order.sealed = None
        self._lost += writer.finished

    def _stop_writing(self, seconds: float | None = None) -> None:
        assert self._writer and self._lock
        self._writer.close(seconds)
        self._lock.release()
        self._lock = self._writer = None

    def _warn(self, error: OSError) -> None:
        self._is_warned = True
        _log.warning("%s: %s: prompts are remembered in memory only", self.folder, error.strerror or error)
