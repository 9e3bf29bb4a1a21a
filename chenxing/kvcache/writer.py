"""The thread that writes a store, so that no token waits for a disk.

Sealing order (law L5): a page's data is written, then its record. Orders are carried out as they were given, so a
slot's DROP is in the index before other data is in the slot. The first failure ends all writing: what is sealed stays.
"""

import math
import os
import queue
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xxhash import xxh3_128_digest

from chenxing.kvcache.files import Files
from chenxing.kvcache.index import Add, Contents, Drop, Header, Record, Use, pack, pack_header

if TYPE_CHECKING:
    from chenxing.kvcache.radix import Node

SYNC_SECONDS = 3.0  # power loss costs what was written in these last seconds
MIN_DEAD_RECORDS = 64  # an index is rewritten when more than these, and more than half of all, are dead


@dataclass(eq=False, slots=True)
class Put:
    """A page to seal. The pool's page is retained until the owner has collected the order.

    sealed  the record, once it is in the index; None if that failed
    """

    id: int
    parent: int
    slot: int
    key: bytes
    memory: memoryview
    page: int
    node: "Node"
    sealed: Add | None = None


@dataclass(frozen=True)
class Punch:
    """Give the space of a free slot back."""

    slot: int


@dataclass(frozen=True)
class Cut:
    """Shorten the data file to this many slots."""

    n_slots: int


@dataclass
class StoreFiles:
    """What is open for writing, and what the index says. Owned by the writer's thread once that runs."""

    folder: Path
    header: Header
    pages_fd: int
    index_fd: int
    contents: Contents
    end: int  # bytes of the index


class Writer:
    """Carries out orders on the files of one store. `submit` and `flush` are the owner's; `finished` goes back to it.

    Guarded: `state` belongs to the thread. The owner may read `state.end` and `error`, which only grow or are set once.
    """

    def __init__(self, files: Files, state: StoreFiles) -> None:
        self.finished: deque[Put] = deque()
        self.error: OSError | None = None
        self.state = state
        self._files = files
        self._orders: queue.SimpleQueue[Put | Drop | Use | Punch | Cut | threading.Event | None] = queue.SimpleQueue()
        self._unsynced_since: float | None = None
        self._last_put = math.inf  # no page is begun after this time
        self._thread = threading.Thread(target=self._run, name="kv-writer", daemon=True)
        self._thread.start()

    def submit(self, order: Put | Drop | Use | Punch | Cut) -> None:
        self._orders.put(order)

    def flush(self, seconds: float | None = None) -> None:
        """Wait until all orders so far are carried out, at most so many seconds if given."""
        done = threading.Event()
        self._orders.put(done)
        end = math.inf if seconds is None else time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not done.wait(min(1.0, left)) and self._thread.is_alive():
            pass

    def close(self, seconds: float | None = None) -> None:
        """Carry out what was ordered, pages only as far as they are begun within some seconds, and end.

        Closes the files.
        """
        if seconds is not None:
            self._last_put = time.monotonic() + seconds
        self._orders.put(None)
        self._thread.join()
        self._files.close(self.state.pages_fd)
        self._files.close(self.state.index_fd)

    def _run(self) -> None:
        while True:
            try:
                wait = None if self._unsynced_since is None else SYNC_SECONDS
                order = self._orders.get(timeout=wait)
            except queue.Empty:
                self._sync()
                continue
            if order is None:
                return
            if isinstance(order, threading.Event):
                order.set()
                continue
            is_late = isinstance(order, Put) and time.monotonic() > self._last_put
            if self.error is None and not is_late:
                try:
                    self._carry_out(order)
                except OSError as error:
                    self.error = error
            if isinstance(order, Put):
                self.finished.append(order)

    def _carry_out(self, order: Put | Drop | Use | Punch | Cut) -> None:
        state, page_bytes = self.state, self.state.header.page_bytes
        match order:
            case Put():
                digest = xxh3_128_digest(order.memory)
                self._files.write(state.pages_fd, order.memory, order.slot * page_bytes)
                sealed = Add(order.id, order.parent, order.slot, digest, order.key)
                self._append(sealed)
                order.sealed = sealed
            case Punch():
                self._files.punch(state.pages_fd, order.slot * page_bytes, page_bytes)
            case Cut():
                self._files.truncate(state.pages_fd, order.n_slots * page_bytes)
            case _:
                self._append(order)
        n_live = len(state.contents.adds)
        if state.contents.n_records - n_live > max(n_live, MIN_DEAD_RECORDS):
            self._compact()
        if self._unsynced_since is not None and time.monotonic() - self._unsynced_since > SYNC_SECONDS:
            self._sync()

    def _append(self, record: Record) -> None:
        data = pack(record)
        self._files.write(self.state.index_fd, data, self.state.end)
        self.state.end += len(data)
        self.state.contents.apply(record)
        self._unsynced_since = self._unsynced_since or time.monotonic()

    def _sync(self) -> None:
        self._unsynced_since = None
        try:
            self._files.sync(self.state.pages_fd)
            self._files.sync(self.state.index_fd)
        except OSError as error:
            self.error = error

    def _compact(self) -> None:
        """Write the live records to a new index, which takes the name of the old one."""
        state, files = self.state, self._files
        records = state.contents.compact()
        header = Header(state.header.fingerprint, state.header.page_bytes, new_generation())
        data = pack_header(header) + b"".join(map(pack, records))
        path = state.folder / "index"
        write_whole(files, path.with_name("index.new"), data)
        files.close(state.index_fd)  # Windows replaces no open file
        try:
            files.replace(path.with_name("index.new"), path)
        except PermissionError:  # nor one that another process has open: at another time
            pass
        else:
            state.header, state.end = header, len(data)
        finally:
            state.index_fd = files.open_writable(path)
        state.contents.n_records = len(records)


def new_generation() -> bytes:
    return os.urandom(16)


def write_whole(files: Files, path: Path, data: bytes) -> None:
    """Make data the content of a file, on the medium."""
    fd = files.open_writable(path)
    try:
        files.truncate(fd, 0)
        files.write(fd, data, 0)
        files.sync(fd)
    finally:
        files.close(fd)
