"""Several processes on one store: one writes, the others read."""

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path

from kvcache.pattern import PAGE_BYTES
from kvcache.small_cache import ids, open_cache, remember

from chenxing.kernels.layout import PAGE


def serve(folder: Path, pipe: Connection) -> None:
    """A process with a cache of its own: computes the prompts it is sent, answers how much it reused, and its role."""
    cache = open_cache(folder)
    while (text := pipe.recv()) is not None:
        n_cached = remember(cache, text)
        cache.flush()
        pipe.send((n_cached, cache.stats().is_writer))
    cache.close()
    pipe.send(None)


def test_two_processes_share_a_store(tmp_path):
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(tmp_path, theirs))
    process.start()
    text, other = ids(100, 0), ids(100, 1)

    def ask(prompt: list[int]) -> tuple[int, bool]:
        ours.send(prompt)
        return ours.recv()

    assert ask(text) == (0, True)
    cache = open_cache(tmp_path)
    assert remember(cache, [*text, 1]) == 100 and not cache.stats().is_writer
    assert ask([*text, 1, 2]) == (100, True)  # what a reader computes stays with it
    assert ask(other) == (0, True)
    assert remember(cache, [*other, 1]) == 100  # what the writer seals meanwhile is found
    ours.send(None)
    assert ours.recv() is None
    process.join()
    assert remember(cache, [*text, 1, 3]) == 101 and cache.stats().is_writer
    cache.close()
    cache = open_cache(tmp_path)
    assert remember(cache, [*text, 1, 3, 4]) == 102
    cache.close()


def test_a_reader_survives_the_writers_evictions(tmp_path):
    writer = open_cache(tmp_path, disk_bytes=12 * PAGE_BYTES + 40_000)
    remember(writer, ids(4 * PAGE, 0))
    writer.flush()
    reader = open_cache(tmp_path)
    assert reader.match(ids(4 * PAGE, 0)) == 4 * PAGE - 1
    for seed in range(1, 60):
        remember(writer, ids(8 * PAGE, seed))
    writer.flush()
    assert remember(reader, ids(4 * PAGE, 0)) == 0
    assert remember(reader, [*ids(8 * PAGE, 59), 0]) == 8 * PAGE
    reader.close()
    writer.close()
