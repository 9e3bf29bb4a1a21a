"""One model's KV on disk: a folder with a data file of pages and an index that says what they are.

One process writes, others read along; whoever has the lock is the writer, and a reader becomes one when it can. Any of
the files may be damaged, cut or gone at any moment, and the writer of another process may use slots anew: what is read
is a private copy that must have the digest of the index (law L5). Nothing here raises OSError; the first failure to
write is warned of, once, and from then on the cache lives in memory. Format: docs/formats/kv-store.md.
"""

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xxhash import xxh3_128_digest, xxh3_128_hexdigest

from chenxing.kvcache import index
from chenxing.kvcache.catalog import make_room
from chenxing.kvcache.files import Files
from chenxing.kvcache.index import Add, Contents, Drop, Header, Use
from chenxing.kvcache.lock import WriterLock
from chenxing.kvcache.radix import FULL, Node
from chenxing.kvcache.slots import Slots
from chenxing.kvcache.writer import Cut, Punch, Put, StoreFiles, Writer, new_generation

BLOCK = 4096  # what a file system gives to files

_log = logging.getLogger("chenxing.kvcache")


@dataclass(frozen=True)
class Changes:
    """What `refresh` found: records that no longer hold, and new ones, least recently used first."""

    gone: list[Add]
    new: list[Add]


@dataclass(frozen=True)
class _Loaded:
    """The index as it was read: `end` is where its sound part ends, `size` where the file did; `head` is its header."""

    header: Header | None
    contents: Contents
    end: int
    size: int
    identity: tuple[int, int] | None
    head: bytes = b""


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
        self.folder = root / xxh3_128_hexdigest(f"{page_bytes} {index.canonical(fingerprint)}".encode())
        self.adds: dict[int, Add] = {}
        self._files = files or Files()
        self._lock: WriterLock | None = None
        self._writer: Writer | None = None
        self._pages_fd: int | None = None
        self._slots = Slots()
        self._last_id = 0
        self._foreign_bytes = 0
        self._seen = _Loaded(None, Contents(), 0, 0, None)
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
            loaded = self._load()
            self._start_writing(loaded)
        elif self._identity() == (self._seen.identity, self._seen.size):
            return None
        else:
            loaded = self._load_growth() or self._load()
            self._seen = loaded
        before, self.adds = self.adds, dict(loaded.contents.adds)
        gone = [add for add in before.values() if self.adds.get(add.id) != add]
        return Changes(gone, [add for add in self.adds.values() if before.get(add.id) != add])

    def _is_lost(self) -> bool:
        """Somebody removed the folder under the writer."""
        assert self._lock is not None
        return not self._lock.is_at(self.folder / "lock")

    def _try_lock(self) -> WriterLock | None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            return WriterLock.acquire(self._files, self.folder / "lock")
        except OSError as error:
            self._warn(error)
            return None

    def _identity(self) -> tuple[tuple[int, int] | None, int]:
        try:
            stat = (self.folder / "index").stat()
        except OSError:
            return None, 0
        return (stat.st_dev, stat.st_ino), stat.st_size

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

    def _load(self) -> _Loaded:
        """The index of this store, from its beginning; nothing if it is not sound or another model's."""
        self._close_pages()
        identity, _ = self._identity()
        data = self._read_index(0)
        contents = Contents()
        found = index.unpack_header(data)
        if found is None or (found[0].fingerprint, found[0].page_bytes) != (self.fingerprint, self.page_bytes):
            return _Loaded(None, contents, 0, len(data), identity)
        header, start = found
        end = start
        for record, after in index.scan(data, end):
            contents.apply(record)
            end = after
        for add in _unreachable(contents):
            contents.apply(Drop(add.id))
        try:
            self._pages_fd = self._files.open_readable(self.folder / "pages")
        except OSError:
            self._pages_fd = None
        return _Loaded(header, contents, end, len(data), identity, data[:start])

    def _load_growth(self) -> _Loaded | None:
        """What was appended to the index since it was seen; None if it is another file by now, or shorter."""
        seen = self._seen
        identity, size = self._identity()
        if seen.header is None or identity != seen.identity or size < seen.end or self._pages_fd is None:
            return None
        if self._read_index(0, len(seen.head)) != seen.head:
            return None
        data, end = self._read_index(seen.end), seen.end
        for record, after in index.scan(data):
            seen.contents.apply(record)
            end = seen.end + after
        return _Loaded(seen.header, seen.contents, end, seen.end + len(data), identity, seen.head)

    def _read_index(self, at: int, n_bytes: int | None = None) -> bytes:
        try:
            fd = self._files.open_readable(self.folder / "index")
        except OSError:
            return b""
        try:
            size = max(0, os.fstat(fd).st_size - at) if n_bytes is None else n_bytes
            data = bytearray(size)
            return bytes(data[: self._files.read(fd, memoryview(data), at)])
        except OSError:
            return b""
        finally:
            self._files.close(fd)

    # ---- writing ----

    def put(self, parent: int, key: bytes, memory: memoryview, page: int, node: Node) -> Put | None:
        """Order a page to be sealed. memory must not change until `finished` returns the order. None: there is no room.

        parent: id of the page before it, which is sealed or ordered; 0: none
        """
        assert self._writer is not None
        if self.room < self.page_bytes and self._foreign_bytes:
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

    def flush(self) -> None:
        """Wait until every order is carried out; `finished` has them then."""
        if self._writer:
            self._writer.flush()

    def close(self) -> None:
        """Finish writing and let go of the lock. The store is empty afterwards."""
        self._closed = True
        if self._writer:
            self._stop_writing()
        self._close_pages()
        self.adds = {}

    def check_integrity(self) -> None:
        self._slots.check_integrity()
        if self._writer:
            slots = [add.slot for add in self.adds.values()]
            assert len(set(slots)) == len(slots) and self._slots.taken >= set(slots)

    def _start_writing(self, loaded: _Loaded) -> None:
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
            self._seen = loaded
            return
        if self._pages_fd is None:
            self._pages_fd = os.dup(opened[0])
        for add in [add for add in contents.adds.values() if add.slot >= n_slots]:
            contents.apply(Drop(add.id))  # the data file was cut
        for add in _unreachable(contents):
            contents.apply(Drop(add.id))
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

    def _stop_writing(self) -> None:
        assert self._writer and self._lock
        self._writer.close()
        self._lock.release()
        self._lock = self._writer = None

    def _close_pages(self) -> None:
        if self._pages_fd is not None:
            self._files.close(self._pages_fd)
            self._pages_fd = None

    def _warn(self, error: OSError) -> None:
        self._is_warned = True
        _log.warning("%s: %s: prompts are remembered in memory only", self.folder, error.strerror or error)


def _unreachable(contents: Contents) -> list[Add]:
    """Pages whose ancestors are not all there."""
    full: dict[int, bool] = {0: True}
    lost = []
    for id_ in sorted(contents.adds):
        add = contents.adds[id_]
        if full.get(add.parent, False):
            full[id_] = len(add.key) == FULL
        else:
            lost.append(add)
    return lost
