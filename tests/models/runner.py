"""Drives a model file step by step, as the engine does, in any cut and company that a test asks for."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from chenxing.gguf import open_gguf
from chenxing.kernels.layout import PAGE
from chenxing.kernels.library import KernelLibrary
from chenxing.kernels.memory import address, aligned
from chenxing.models import Run, load_model
from chenxing.models.model import N_OUTPUTS, page_bytes, read_model


class Runner:
    """A loaded model and pages for two sequences of max_tokens.

    Every call of `logits` and `together` begins new sequences, on the pages that the call before it has left full of
    other keys and values, in another order: nothing of that may show.
    """

    def __init__(
        self,
        path: Path,
        library: KernelLibrary,
        *,
        n_ctx: int,
        n_threads: int = 1,
        max_tokens: int = 96,
        kv_type: str = "f16",
        int8: bool = False,
    ) -> None:
        gguf = open_gguf(path)
        hp = read_model(gguf, n_ctx)
        self._n_pages = -(-max_tokens // PAGE)
        self._pages_of_both = aligned((2 * self._n_pages, page_bytes(hp, kv_type)))
        self._model = load_model(gguf, hp, library, n_threads, kv_type=kv_type, int8=int8)
        self._shuffle = np.random.default_rng(1)

    def logits(self, ids: Sequence[int], sizes: Iterable[int]) -> np.ndarray:
        """f32[len(ids), n_vocab] of one sequence, computed in runs of these sizes, the last one as long as need be."""
        pages, _ = self._pages()
        rows, first = [], 0
        for size in [*sizes, len(ids)]:
            chunk = ids[first : first + size]
            rows += [self._outputs([chunk], [first], [pages])[0]] if chunk else []
            first += len(chunk)
        return np.concatenate(rows)

    def together(self, one: Sequence[int], two: Sequence[int], sizes: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """Logits of two sequences that share steps, in runs of these two sizes, until both are at their end."""
        left, pages, first = [one, two], list(self._pages()), [0, 0]
        rows: list[list[np.ndarray]] = [[], []]
        while any(left):
            who = [i for i in (1, 0) if left[i]]
            chunks = [left[i][: sizes[i]] for i in who]
            found = self._outputs(chunks, [first[i] for i in who], [pages[i] for i in who])
            for i, chunk, logits in zip(who, chunks, found, strict=True):
                rows[i].append(logits)
                left[i], first[i] = left[i][len(chunk) :], first[i] + len(chunk)
        return np.concatenate(rows[0]), np.concatenate(rows[1])

    def close(self) -> None:
        self._model.close()

    def _pages(self) -> tuple[np.ndarray, np.ndarray]:
        memory = self._pages_of_both
        order = address(memory) + self._shuffle.permutation(2 * self._n_pages) * memory.shape[1]
        return order[: self._n_pages].copy(), order[self._n_pages :].copy()

    def _outputs(
        self, chunks: Sequence[Sequence[int]], positions: Sequence[int], pages: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Logits of all rows: a step gives at most N_OUTPUTS, so it is repeated, which writes the same KV again."""
        wanted = [(i, t) for i, chunk in enumerate(chunks) for t in range(len(chunk))]
        rows = []
        for n in range(0, len(wanted), N_OUTPUTS):
            some = wanted[n : n + N_OUTPUTS]
            runs = [
                Run(chunk, positions[i], pages[i], [t for j, t in some if j == i]) for i, chunk in enumerate(chunks)
            ]
            rows.append(self._model.step(runs).copy())
        return np.split(np.concatenate(rows), np.cumsum([len(chunk) for chunk in chunks])[:-1])
