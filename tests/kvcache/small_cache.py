"""A small KV cache over a folder, whose pages hold what tests/kvcache/pattern.py makes of the tokens."""

from pathlib import Path

import numpy as np
from kvcache.pattern import PAGE_BYTES, check, compute

from chenxing.kernels.layout import PAGE
from chenxing.kvcache import KVCache
from chenxing.kvcache.files import Files

N_CTX = 40 * PAGE
BIG = 4096 // PAGE_BYTES * PAGE_BYTES  # page_bytes where the size on disk matters


def ids(n: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, 1000, n).tolist()


def open_cache(folder: Path | None, name: str = "a", files: Files | None = None, **options: int) -> KVCache:
    sizes = {"page_bytes": PAGE_BYTES, "ram_bytes": 1000 * PAGE_BYTES, "disk_bytes": 1 << 30} | options
    fingerprint = {"name": name, "weights": name}
    return KVCache(sizes.pop("page_bytes"), folder=folder, fingerprint=fingerprint, files=files, **sizes)


def remember(cache: KVCache, text: list[int]) -> int:
    """Compute a prompt. -> tokens that were reused, and were right."""
    sequence = cache.begin(text, N_CTX)
    n_cached = sequence.n_cached
    check(sequence, text[:n_cached])
    assert compute(sequence, text[n_cached:])
    sequence.release()
    cache.check_integrity()
    return n_cached
