"""The model that a selfcheck looks at: engines of it, its prompts, and bits of logits to compare."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

from chenxing.engine import MEMORY_ONLY, CacheRoom, Engine, Limits, Request
from chenxing.gguf import GGUF
from chenxing.kernels.layout import PAGE
from chenxing.kernels.library import KernelLibrary, Progress
from chenxing.models.model import read_model
from chenxing.sampling import Sampler, SamplingParams
from chenxing.tokenizer import Tokenizer

N_PROMPT = 3 * PAGE + 11  # pages, and a page that is not full
N_ANSWER = 16
N_CTX = 256
_DISK_BYTES = 1 << 30
_TEXT = "It was a dark and stormy night; the rain fell in torrents, and 3 lamps of 10 had gone out. "


@dataclass(frozen=True)
class Subject:
    """What is checked, and with what.

    gguf        the model's file
    tokenizer   its own
    n_threads   as chenxing run would use
    folder      for files of this selfcheck alone
    library     kernels of the host's best instruction set
    is_toy      the model is gone afterwards: its packed weights are not kept
    all_isas    compile kernels for the CPU's other instruction sets if need be
    on_progress of loading
    """

    gguf: GGUF
    tokenizer: Tokenizer
    n_threads: int
    folder: Path
    library: KernelLibrary
    is_toy: bool
    all_isas: bool = False
    on_progress: Progress | None = None

    @contextlib.contextmanager
    def engine(
        self,
        *,
        n_threads: int | None = None,
        library: KernelLibrary | None = None,
        room: CacheRoom = MEMORY_ONLY,
        n_ctx: int = N_CTX,
    ) -> Iterator[Engine]:
        """A new engine that knows nothing, but for what is in the room's folder; closed at the end."""
        engine = Engine(
            self.gguf,
            read_model(self.gguf, n_ctx),
            n_ctx,
            library or self.library,
            n_threads or self.n_threads,
            self.on_progress,
            weight_cache=not self.is_toy,
            cache=room,
        )
        try:
            yield engine
        finally:
            engine.close()

    def on_disk(self, name: str) -> CacheRoom:
        """A cache with a folder of its own."""
        return CacheRoom(_DISK_BYTES, 0, self.folder / name)

    def prompt(self, seed: int = 0) -> list[int]:
        """N_PROMPT token ids, whose first one depends on the seed."""
        ids = self.tokenizer.encode(_TEXT, add_special=False)
        rotated = ids[seed % len(ids) :] + ids[: seed % len(ids)]
        return (rotated * (N_PROMPT // len(ids) + 1))[:N_PROMPT]

    def other(self, token: int) -> int:
        """A token id that is not this one."""
        return next(i for i in self.tokenizer.encode(_TEXT, add_special=False) if i != token)


@dataclass
class Answer:
    """token_ids of one request, and digests of the rows of logits that they were chosen from."""

    request: Request
    rows: list[str]


def ask(subject: Subject, engine: Engine, prompt: Sequence[int], params: SamplingParams) -> Answer:
    """A request for N_ANSWER tokens, submitted to the engine and not run yet."""
    rows: list[str] = []
    request = Request(
        list(prompt),
        Sampler(params, engine.hp.n_vocab, token_text=subject.tokenizer.token_bytes, prompt=prompt),
        subject.tokenizer.stream_decoder(),
        Limits(N_ANSWER),
        observe=lambda logits, token: rows.append(digest(logits)),
    )
    engine.submit(request)
    return Answer(request, rows)


def run(engine: Engine) -> None:
    """Until all requests have ended."""
    while not engine.is_idle:
        engine.step()


def digest(logits: np.ndarray) -> str:
    """Of the bits of one row."""
    return xxhash.xxh3_128_hexdigest(np.ascontiguousarray(logits).view(np.uint8).data)


def digests(rows: np.ndarray) -> list[str]:
    """Of every row."""
    return [digest(row) for row in rows]
