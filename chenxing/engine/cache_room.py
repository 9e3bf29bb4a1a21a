"""Where an engine keeps keys and values, and how much of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chenxing.config import settings
from chenxing.kernels.layout import PAGE
from chenxing.kvcache import KVCache, default_disk_bytes
from chenxing.memory import machine_bytes

MAX_DEFAULT_RAM_BYTES = 8 << 30
CLOSE_SECONDS = 2.0  # pages that are not on a slow disk by then are not worth the wait


@dataclass(frozen=True)
class CacheRoom:
    """Limits of the KV cache.

    disk_bytes  of all models' stores together; 0: memory only; None: a tenth of the free space, at most 16 GiB
    ram_bytes   for conversations beside the current one, whose context always has room; None: a quarter of the memory
                that is free when the model is loaded, at most 8 GiB. It is taken as it fills.
    folder      of all stores; None: the one in the user's cache
    """

    disk_bytes: int | None = None
    ram_bytes: int | None = None
    folder: Path | None = None

    def open(self, page_bytes: int, n_ctx: int, fingerprint: dict[str, Any]) -> KVCache:
        """The cache of a model with this context. Mutates the disk: stores beyond the limit go."""
        n_pages = -(-n_ctx // PAGE) + 1  # one more for the copy of a shared page
        ram_bytes = _default_ram_bytes() if self.ram_bytes is None else self.ram_bytes
        folder = self.folder or settings().paths.cache / "kv"
        disk_bytes = default_disk_bytes(folder) if self.disk_bytes is None else self.disk_bytes
        return KVCache(
            page_bytes,
            ram_bytes=n_pages * page_bytes + ram_bytes,
            folder=folder if disk_bytes else None,
            fingerprint=fingerprint,
            disk_bytes=disk_bytes,
        )


DEFAULT_ROOM = CacheRoom()
MEMORY_ONLY = CacheRoom(disk_bytes=0, ram_bytes=0)


def _default_ram_bytes() -> int:
    total, available = machine_bytes()
    if available is None:
        available = (total or 0) // 2
    return min(available // 4, MAX_DEFAULT_RAM_BYTES)
