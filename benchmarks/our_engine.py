"""Our engine with its KV in a folder, or in memory alone, for questions about that."""

from pathlib import Path

from chenxing.engine import MEMORY_ONLY, CacheRoom, Engine
from chenxing.gguf import open_gguf
from chenxing.kernels.library import KernelLibrary
from chenxing.models.model import read_model

DISK_BYTES = 64 << 30


def open_engine(model: str, n_ctx: int, n_threads: int, folder: Path | None) -> Engine:
    gguf = open_gguf(Path(model))
    room = MEMORY_ONLY if folder is None else CacheRoom(DISK_BYTES, 0, folder)
    return Engine(gguf, read_model(gguf, n_ctx), n_ctx, KernelLibrary(), n_threads, cache=room)
