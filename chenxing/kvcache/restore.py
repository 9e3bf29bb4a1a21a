"""Copying many pages from disk to memory at once: reading and checking release the GIL, so a few threads share it."""

import os
import threading
from collections.abc import Sequence

from chenxing.kvcache.index import Add
from chenxing.kvcache.store import Store

MAX_THREADS = 8
MIN_BYTES_EACH = 4 << 20  # less is not worth a thread


def restore(store: Store, pages: Sequence[tuple[Add, memoryview]]) -> list[bool]:
    """Read these sealed pages into memory. -> for each, whether it is what was sealed; if not, it is all zeros."""
    sound = [False] * len(pages)
    n_bytes = len(pages) * store.page_bytes
    n_threads = max(1, min(MAX_THREADS, os.cpu_count() or 1, n_bytes // MIN_BYTES_EACH))

    def share(first: int) -> None:
        for i in range(first, len(pages), n_threads):
            sound[i] = store.read(*pages[i])

    threads = [threading.Thread(target=share, args=(i,), name="kv-reader") for i in range(1, n_threads)]
    for thread in threads:
        thread.start()
    share(0)
    for thread in threads:
        thread.join()
    return sound
