"""Measuring many answers at once: `chenxing bench --prompts 4 --new-tokens 32`.

All prompts come at the same moment, as random tokens of which the cache knows nothing, and every answer is greedy and
runs to its last token.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chenxing.engine import MEMORY_ONLY, Engine, Event, Limits, Request
from chenxing.gguf import GGUF
from chenxing.kernels.layout import PAGE
from chenxing.kernels.library import KernelLibrary, Progress
from chenxing.models.model import N_OUTPUTS, read_model
from chenxing.sampling import Sampler, SamplingParams
from chenxing.tokenizer import Tokenizer, load_tokenizer

MAX_STREAMS = N_OUTPUTS
_SPARE_PAGES = 2  # a request begins when there is a page to spare for everybody who runs


@dataclass(frozen=True)
class Streams:
    """n_streams prompts of n_prompt tokens, each answered with n_gen tokens."""

    n_streams: int
    n_prompt: int
    n_gen: int

    @property
    def n_ctx(self) -> int:
        """A context that all of them fit into together, for memory is taken for one."""
        return self.n_streams * (-(-(self.n_prompt + self.n_gen) // PAGE) + _SPARE_PAGES) * PAGE


@dataclass(frozen=True)
class Repetition:
    """One run. Seconds from the submission: of every token of each stream."""

    times: Sequence[Sequence[float]]

    @property
    def seconds(self) -> float:
        """Until the last token of all."""
        return max(stream[-1] for stream in self.times)

    @property
    def first_seconds(self) -> list[float]:
        """Of each stream, until its first token."""
        return [stream[0] for stream in self.times]

    @property
    def stream_rates(self) -> list[float]:
        """Tokens/s of each stream after its first token; none where there is no second one."""
        return [(len(s) - 1) / (s[-1] - s[0]) for s in self.times if len(s) > 1]

    @property
    def gaps(self) -> list[float]:
        """Seconds between one token and the next, of all streams."""
        return [b - a for s in self.times for a, b in pairwise(s)]


@dataclass(frozen=True)
class StreamsResult:
    streams: Streams
    isa: str
    n_threads: int
    repetitions: Sequence[Repetition]

    def figures(self) -> dict[str, float]:
        """Medians over the repetitions: tokens/s and ms.

        prompt_ts               of all prompts together, until every stream has its first token
        total_ts                of all answers together, from the submission to the last token
        stream_ts               of one stream after its first token
        first_ms, first_max_ms  until a stream has its first token; until the last one has
        gap_ms, gap_p95_ms      from one token of a stream to the next: the median, and what 95 % do not exceed
        """
        s, runs = self.streams, self.repetitions
        gaps = sorted(gap for run in runs for gap in run.gaps)
        rates = [rate for run in runs for rate in run.stream_rates]
        last = statistics.median(max(run.first_seconds) for run in runs)
        return {
            "prompt_ts": s.n_streams * s.n_prompt / last,
            "total_ts": statistics.median(s.n_streams * s.n_gen / run.seconds for run in runs),
            "stream_ts": statistics.median(rates) if rates else 0.0,
            "first_ms": 1000 * statistics.median(first for run in runs for first in run.first_seconds),
            "first_max_ms": 1000 * last,
            "gap_ms": 1000 * statistics.median(gaps) if gaps else 0.0,
            "gap_p95_ms": 1000 * gaps[int(0.95 * (len(gaps) - 1))] if gaps else 0.0,
        }


def run_streams(
    gguf: GGUF,
    streams: Sequence[Streams],
    n_threads: Sequence[int],
    n_repetitions: int,
    on_progress: Progress | None = None,
    *,
    int8: bool = False,
) -> Iterator[StreamsResult]:
    """The result of each of `streams` with each number of threads, as it is there; one warm-up before each."""
    n_ctx = max(s.n_ctx for s in streams)
    library, tokenizer = KernelLibrary(), load_tokenizer(gguf)
    n_slots = max(s.n_streams for s in streams)
    for n in n_threads:
        hp = read_model(gguf, n_ctx)
        engine = Engine(gguf, hp, n_ctx, library, n, on_progress, int8=int8, cache=MEMORY_ONLY, n_slots=n_slots)
        try:
            rng = np.random.default_rng(1)
            for s in streams:
                once = [run_once(engine, tokenizer, s, rng) for _ in range(1 + n_repetitions)]
                yield StreamsResult(s, engine.isa, n, once[1:])
        finally:
            engine.close()


def run_once(engine: Engine, tokenizer: Tokenizer, streams: Streams, rng: np.random.Generator) -> Repetition:
    """All streams from their submission to their last tokens, with new prompts."""
    times: list[list[float]] = [[] for _ in range(streams.n_streams)]
    requests = []
    for i in range(streams.n_streams):
        ids = rng.integers(0, engine.hp.n_vocab, streams.n_prompt).tolist()
        sampler = Sampler(SamplingParams(temp=0.0), engine.hp.n_vocab, prompt=ids)
        request = Request(ids, sampler, tokenizer.stream_decoder(), Limits(streams.n_gen), client=i)
        request.on_event = _clock(times[i])
        requests.append(request)
    start = time.perf_counter()
    for request in requests:
        engine.submit(request)
    while not engine.is_idle:
        engine.step()
    for request in requests:
        if request.error:
            raise request.error
    return Repetition([[at - start for at in stream] for stream in times])


def _clock(times: list[float]) -> Callable[[Event], None]:
    def note(event: Event) -> None:
        times.extend(time.perf_counter() for _ in event.tokens)

    return note
