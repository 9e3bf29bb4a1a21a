"""Packed tensors one after another, made by several threads: for a file or for memory, a few pieces at a time."""

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np

from chenxing.cores import cores
from chenxing.gguf import GGUF
from chenxing.kernels.layout import ALIGN
from chenxing.models.packing import pack_jobs, packed_size
from chenxing.models.spec import TensorSpec

TAIL = 65536  # bytes of zeros behind the last tensor: kernels prefetch and load a little past the end

Places = dict[str, tuple[int, int]]


def source_name(model: GGUF, spec: TensorSpec) -> str:
    """The name of the file's tensor that serves as this one."""
    name = spec.name if spec.name in model.tensors else spec.fallback
    assert name is not None
    return name


def lay_out(model: GGUF, specs: Sequence[TensorSpec]) -> tuple[Places, int]:
    """Offset and size of each packed tensor, offsets in multiples of ALIGN; and the size of all, with the tail."""
    places, end = {}, 0
    for spec in specs:
        n_bytes = packed_size(model, spec, source_name(model, spec))
        places[spec.name] = (end, n_bytes)
        end += -(-n_bytes // ALIGN) * ALIGN
    return places, end + TAIL


def packed_pieces(model: GGUF, specs: Sequence[TensorSpec]) -> Iterator[tuple[str, np.ndarray]]:
    """(name of the spec, the next of its bytes, u8 flat), in the order of `lay_out`.

    The file's pages of a tensor are released when its last piece is taken.
    """
    from concurrent.futures import Future, ThreadPoolExecutor  # only a first start packs

    n_threads = cores().n_threads
    waiting: deque[tuple[str, str | None, Future[np.ndarray]]] = deque()

    def take() -> tuple[str, np.ndarray]:
        name, finished, future = waiting.popleft()
        piece = future.result()
        if finished:
            model.release(finished)
        return name, piece

    with ThreadPoolExecutor(n_threads) as pool:
        for spec in specs:
            source = source_name(model, spec)
            jobs = list(pack_jobs(model, spec, source))
            for i, job in enumerate(jobs):
                waiting.append((spec.name, source if i == len(jobs) - 1 else None, pool.submit(job)))
                if len(waiting) > 2 * n_threads:
                    yield take()
        while waiting:
            yield take()
