"""The engine: runs prompts and tokens through a model, one conversation at a time, and keeps its KV for the next.

The last conversation's pages stay; a new prompt computes only what follows the longest common prefix of token ids
(law L4), and always at least its last token, whose logits are wanted.
"""

from collections.abc import Callable, Sequence

import numpy as np

from chenxing.errors import ContextError
from chenxing.gguf import GGUF
from chenxing.kernels.layout import PAGE
from chenxing.kernels.library import KernelLibrary, Progress
from chenxing.kvcache import PagePool
from chenxing.kvcache import Sequence as KVSequence
from chenxing.models import Model, Run, load_model
from chenxing.models.model import N_BATCH, N_OUTPUTS, page_bytes
from chenxing.models.spec import HParams

Prefill = Callable[[int, int], None]  # tokens that are in the cache now, tokens of the prompt


class Engine:
    """A model with its KV pages. Not thread-safe: one call at a time.

    n_ctx   tokens that a conversation may have
    """

    def __init__(
        self,
        gguf: GGUF,
        hp: HParams,
        n_ctx: int,
        library: KernelLibrary,
        n_threads: int,
        on_progress: Progress | None = None,
    ) -> None:
        self.hp, self.n_ctx, self.n_threads, self.isa = hp, n_ctx, n_threads, library.isa.name
        self._pool = PagePool(-(-n_ctx // PAGE), page_bytes(hp))
        self._model: Model = load_model(gguf, hp, self._pool.base, library, n_threads, on_progress)
        self._sequence = KVSequence(self._pool, n_ctx)

    def prompt(self, ids: Sequence[int], on_prefill: Prefill | None = None) -> tuple[int, np.ndarray]:
        """Make ids the conversation. -> how many were reused, the logits f32[n_vocab] after the last one.

        Raises ContextError for more ids than the context holds. What was computed before an exception stays.
        """
        assert ids
        self.check_fits(ids)
        n_cached = min(_common_prefix(self._sequence.ids, ids), len(ids) - 1)
        self._sequence.truncate(n_cached)
        logits = None
        for first in range(n_cached, len(ids), N_BATCH):
            chunk = list(ids[first : first + N_BATCH])
            last = first + len(chunk) == len(ids)
            logits = self._run(chunk, (len(chunk) - 1,) if last else ())
            if on_prefill:
                on_prefill(first + len(chunk), len(ids))
        assert logits is not None
        return n_cached, logits[0]

    def check_fits(self, ids: Sequence[int]) -> None:
        """Raises ContextError for more ids than the context holds."""
        if len(ids) > self.n_ctx:
            raise ContextError(len(ids), self.n_ctx)

    def append(self, token: int) -> np.ndarray:
        """Add one token to the conversation. -> the logits f32[n_vocab] after it, valid until the next call."""
        return self._run([token], (0,))[0]

    @property
    def model(self) -> Model:
        """What runs the steps, for those who count its weights or use its threads between calls."""
        return self._model

    @property
    def n_free(self) -> int:
        """Tokens that the conversation may still get."""
        return self.n_ctx - len(self._sequence.ids)

    def logits(self, ids: Sequence[int], first: int = 0) -> np.ndarray:
        """f32[len(ids) - first, n_vocab]: the logits after each of ids[first:], computed from an empty context."""
        self.check_fits(ids)
        self._sequence.truncate(0)
        out = []
        at = 0
        while at < len(ids):
            size = N_BATCH if at + N_BATCH <= first else N_OUTPUTS
            chunk = list(ids[at : at + size])
            wanted = [i for i in range(len(chunk)) if at + i >= first]
            out.append(self._run(chunk, wanted).copy())
            at += len(chunk)
        return np.concatenate(out)

    def close(self) -> None:
        """Stop the threads. The engine cannot run afterwards."""
        self._model.close()

    def _run(self, tokens: list[int], outputs: Sequence[int]) -> np.ndarray:
        sequence = self._sequence
        position = len(sequence.ids)
        sequence.reserve(position + len(tokens))
        logits = self._model.step([Run(tokens, position, sequence.pages, outputs)])
        sequence.ids += tokens
        return logits


def _common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    n = min(len(a), len(b))
    different = np.flatnonzero(np.asarray(a[:n]) != np.asarray(b[:n]))
    return int(different[0]) if len(different) else n
