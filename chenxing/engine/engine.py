"""The engine: a model, its KV cache, and the requests that they serve.

`submit` and `step` serve many requests at once (see loop.py). `prompt`, `append` and `logits` run one sequence by hand,
for measuring and for tests. Either way a prompt computes only what follows the longest prefix that the KV cache knows,
whoever computed that (law L4), and always at least its last token, whose logits are wanted.
"""

from collections.abc import Callable, Sequence

import numpy as np

from chenxing.engine.cache_room import CLOSE_SECONDS, DEFAULT_ROOM, CacheRoom
from chenxing.engine.loop import Loop
from chenxing.engine.request import Event, Request
from chenxing.engine.speculation import Speculation
from chenxing.engine.stats import EngineStats
from chenxing.errors import ContextError, OutOfMemoryError
from chenxing.gguf import GGUF
from chenxing.kernels.cut import Cut
from chenxing.kernels.library import KernelLibrary, Progress
from chenxing.kvcache import CacheStats
from chenxing.kvcache import Sequence as KVSequence
from chenxing.models import Model, Run, load_model
from chenxing.models.fingerprint import kv_fingerprint
from chenxing.models.model import N_BATCH, N_OUTPUTS, page_bytes
from chenxing.models.spec import HParams

Prefill = Callable[[int, int], None]  # tokens that are in the cache now, tokens of the prompt
N_SLOTS = 8  # requests that run at the same time, by default


class Engine:
    """A model with its KV pages. Not thread-safe, but for `submit`, `post` and `stop`: one call at a time.

    n_ctx      tokens that a conversation may have
    kv_type    how keys and values are kept: f16, bf16, f32 or q8_0
    int8       float matrices of the layers as int8, with outliers apart
    cache      how much of them is kept for later, in memory and on disk
    n_slots    requests that run at the same time
    n_batch    tokens of prompts that one step takes at most
    speculation  what drafts for them; it is the engine's from then on
    cut        what ends steps early whose requests are all cancelled; a draft model's too, if it was made with it
    is_driven  an EngineThread calls `step`
    """

    def __init__(
        self,
        gguf: GGUF,
        hp: HParams,
        n_ctx: int,
        library: KernelLibrary,
        n_threads: int,
        on_progress: Progress | None = None,
        kv_type: str = "f16",
        *,
        weight_cache: bool = True,
        int8: bool = False,
        cache: CacheRoom = DEFAULT_ROOM,
        n_slots: int = N_SLOTS,
        n_batch: int = N_BATCH,
        speculation: Speculation | None = None,
        cut: Cut | None = None,
    ) -> None:
        self.hp, self.n_ctx, self.n_threads, self.isa = hp, n_ctx, n_threads, library.isa.name
        self.kv_type = kv_type
        cut = cut or Cut()
        self._model: Model = load_model(
            gguf, hp, library, n_threads, on_progress, kv_type, weight_cache=weight_cache, int8=int8, cut=cut
        )
        self._cache = cache.open(page_bytes(hp, kv_type), n_ctx, kv_fingerprint(gguf, self._model, kv_type))
        self._sequence: KVSequence | None = None
        self._speculation = speculation
        self._loop = Loop(self._model, self._cache, n_ctx, n_slots, n_batch, speculation=speculation, cut=cut)
        self.is_driven = False

    def submit(self, request: Request) -> None:
        """Let a request wait for its turn. From any thread. Raises ContextError if it does not fit."""
        self.check_fits(request.ids)
        self._loop.submit(request)

    def post(self, function: Callable[[], None]) -> None:
        """Have it called between two steps. From any thread."""
        self._loop.post(function)

    def step(self) -> list[Event]:
        """Bring all requests that have a turn one step further: schedule, run, sample, commit, and tell them."""
        self._end()
        return self._loop.step()

    @property
    def is_idle(self) -> bool:
        """There is no request."""
        return self._loop.is_idle

    def wait(self) -> None:
        """Sleep until something is submitted or posted."""
        self._loop.wait()

    def fail(self, error: Exception) -> None:
        """End all requests with an error."""
        self._loop.fail(error)

    def stop(self) -> None:
        """End the running step before its time, and each one before it begins, until `cancel_all`. From any thread."""
        self._loop.stop()

    def cancel_all(self) -> None:
        """End all requests as cancelled."""
        self._loop.close()

    def stats(self) -> EngineStats:
        """In the thread that calls `step`."""
        return self._loop.stats()

    def prompt(self, ids: Sequence[int]) -> tuple[int, np.ndarray]:
        """Make ids the conversation. -> how many were reused, the logits f32[n_vocab] after the last one.

        Raises ContextError for more ids than the context holds. What was computed before an exception stays.
        """
        assert ids
        self.check_fits(ids)
        n_cached = self._begin(ids).n_cached
        logits = None
        for first in range(n_cached, len(ids), N_BATCH):
            chunk = list(ids[first : first + N_BATCH])
            last = first + len(chunk) == len(ids)
            logits = self._run(chunk, (len(chunk) - 1,) if last else ())
        assert logits is not None
        return n_cached, logits[0]

    def check_fits(self, ids: Sequence[int]) -> None:
        """Raises ContextError for more ids than the context holds."""
        if len(ids) > self.n_ctx:
            raise ContextError(len(ids), self.n_ctx)

    def append(self, token: int) -> np.ndarray:
        """Add one token to the conversation. -> the logits f32[n_vocab] after it, valid until the next call."""
        return self._run([token], (0,))[0]

    def truncate(self, n_tokens: int) -> None:
        """Forget the conversation's tokens from the n-th on, and go on from there."""
        assert self._sequence and 0 < n_tokens <= self._sequence.n_tokens
        self._sequence.truncate(n_tokens)

    def check_integrity(self) -> None:
        """Raises AssertionError if pages are lost, or held by nobody (law L6)."""
        self._cache.check_integrity()

    @property
    def model(self) -> Model:
        """What runs the steps, for those who count its weights or use its threads between calls."""
        return self._model

    @property
    def spec_type(self) -> str:
        """What drafts for its requests: none, ngram-simple, draft-simple."""
        return self._speculation.name if self._speculation else "none"

    @property
    def n_from_disk(self) -> int:
        """Tokens of the conversation of `prompt` that were reused and were on disk alone."""
        return self._sequence.n_from_disk if self._sequence else 0

    @property
    def cache_stats(self) -> CacheStats:
        """What the KV cache holds, and what it did."""
        return self._cache.stats()

    def logits(self, ids: Sequence[int], first: int = 0) -> np.ndarray:
        """f32[len(ids) - first, n_vocab]: the logits after each of ids[first:], computed from an empty context.

        Nothing of it is kept for later.
        """
        self.check_fits(ids)
        self._end()
        self._loop.pause()
        self._sequence = self._cache.begin_private(self.n_ctx)
        out = []
        at = 0
        while at < len(ids):
            size = N_BATCH if at + N_BATCH <= first else N_OUTPUTS
            chunk = list(ids[at : at + size])
            wanted = [i for i in range(len(chunk)) if at + i >= first]
            out.append(self._run(chunk, wanted).copy())
            at += len(chunk)
        return np.concatenate(out)

    def forget(self, ids: Sequence[int]) -> int:
        """Take a conversation out of the KV cache, but for what others share. -> how many of its tokens are gone"""
        return self._cache.forget(ids)

    def close(self) -> None:
        """Write what the disk is to have, and stop the threads. The engine cannot run afterwards."""
        assert not self.is_driven, "the engine's thread is to be closed first"
        self._loop.close()
        self._end()
        self._cache.close(CLOSE_SECONDS)
        self._model.close()
        if self._speculation:
            self._speculation.close()

    def _begin(self, ids: Sequence[int]) -> KVSequence:
        self._end()
        self._loop.pause()
        self._sequence = self._cache.begin(ids, self.n_ctx)
        return self._sequence

    def _end(self) -> None:
        if self._sequence:
            self._sequence.release()
            self._sequence = None

    def _run(self, tokens: list[int], outputs: Sequence[int]) -> np.ndarray:
        sequence = self._sequence
        assert sequence
        position = sequence.n_tokens
        if not sequence.reserve(position + len(tokens)):
            raise OutOfMemoryError(f"no memory for the KV of {position + len(tokens)} tokens: use a smaller -c")
        logits = self._model.step([Run(tokens, position, sequence.table, outputs)])
        sequence.commit(tokens)
        return logits
