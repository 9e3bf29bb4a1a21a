"""Keys and values of computed tokens: in pages, found by their tokens, kept in memory and on disk."""

from chenxing.kvcache.catalog import (
    StoreInfo,
    Verified,
    clear_store,
    default_disk_bytes,
    list_stores,
    verify_store,
)
from chenxing.kvcache.manager import CacheStats, KVCache
from chenxing.kvcache.sequence import Sequence

__all__ = [
    "CacheStats",
    "KVCache",
    "Sequence",
    "StoreInfo",
    "Verified",
    "clear_store",
    "default_disk_bytes",
    "list_stores",
    "verify_store",
]
