"""Keys and values of computed tokens, in pages."""

from chenxing.kvcache.pages import PagePool, Sequence

__all__ = ["PagePool", "Sequence"]
