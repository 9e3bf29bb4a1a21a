"""Reading a store's index: whole, or what grew since it was last read. Whatever is wrong with it, it just says less."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chenxing.kvcache import index
from chenxing.kvcache.files import Files
from chenxing.kvcache.index import Add, Contents, Drop, Header
from chenxing.kvcache.radix import FULL


@dataclass(frozen=True)
class Loaded:
    """An index as it was read.

    head, end, size   the header's bytes, where the sound part ends, where the file did
    header is None if there is no index, or not a sound one of this model.
    """

    header: Header | None
    contents: Contents
    end: int
    size: int
    head: bytes = b""


class IndexReader:
    """The index file of one folder, which others may replace, cut, damage or remove at any moment."""

    def __init__(self, files: Files, path: Path, page_bytes: int, fingerprint: dict[str, Any]) -> None:
        self._files, self._path = files, path
        self._wanted = (page_bytes, index.identity(fingerprint))
        self._seen = Loaded(None, Contents(), 0, 0)
        self._identity: tuple[int, int, int] | None = None

    def load(self) -> Loaded:
        """All that the index says now, as far as it is sound."""
        self._identity = self._stat()
        data = self._read(0)
        contents = Contents()
        found = index.unpack_header(data)
        if found is None or (found[0].page_bytes, index.identity(found[0].fingerprint)) != self._wanted:
            self._seen = Loaded(None, contents, 0, len(data))
            return self._seen
        header, start = found
        end = start
        for record, after in index.scan(data, start):
            contents.apply(record)
            end = after
        drop_unreachable(contents)
        self._seen = Loaded(header, contents, end, len(data), data[:start])
        return self._seen

    def load_if_changed(self) -> Loaded | None:
        """None if the file is the one that was loaded last; if it only grew, just that is read."""
        identity, seen = self._stat(), self._seen
        if identity == self._identity:
            return None
        same = identity and self._identity and identity[:2] == self._identity[:2] and identity[2] >= seen.end
        if not same or seen.header is None or self._read(0, len(seen.head)) != seen.head:
            return self.load()
        self._identity = identity
        data, end = self._read(seen.end), seen.end
        for record, after in index.scan(data):
            seen.contents.apply(record)
            end = seen.end + after
        self._seen = Loaded(seen.header, seen.contents, end, seen.end + len(data), seen.head)
        return self._seen

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_dev, stat.st_ino, stat.st_size

    def _read(self, at: int, n_bytes: int | None = None) -> bytes:
        try:
            fd = self._files.open_readable(self._path)
        except OSError:
            return b""
        try:
            data = bytearray(max(0, os.fstat(fd).st_size - at) if n_bytes is None else n_bytes)
            return bytes(data[: self._files.read(fd, memoryview(data), at)])
        except OSError:
            return b""
        finally:
            self._files.close(fd)


def drop_unreachable(contents: Contents) -> None:
    """Forget pages whose ancestors are not all there, and full."""
    is_full = {0: True}
    for id_ in sorted(contents.adds):
        add: Add = contents.adds[id_]
        if is_full.get(add.parent, False):
            is_full[id_] = len(add.key) == FULL
        else:
            contents.apply(Drop(id_))
