"""A model that is a function of the prefix, kept in KV pages as a real one's: wrong pages give wrong answers."""

import ctypes
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from chenxing.engine import Event, Limits, Request, Shift
from chenxing.engine.loop import Loop
from chenxing.engine.speculation import Speculation
from chenxing.kernels.cut import Cut, StepCut
from chenxing.kernels.layout import PAGE
from chenxing.kvcache import KVCache
from chenxing.models import Run
from chenxing.models.model import N_BATCH, N_OUTPUTS

PAGE_BYTES = 8 * PAGE  # one word a token: the state after it
LETTERS = string.ascii_lowercase + " .,!?|"
N_VOCAB = len(LETTERS)
EOG = N_VOCAB - 1
_LOGITS = np.random.default_rng(5).normal(0, 1.5, (509, N_VOCAB)).astype(np.float32)
_NOISE = np.random.default_rng(6).gumbel(size=(61, N_VOCAB)).astype(np.float32)


def next_state(state: int, token: int, position: int) -> int:
    return (state * 6364136223846793005 + 31 * token + position + 1) % (1 << 61)


def logits_of(state: int) -> np.ndarray:
    return _LOGITS[state % len(_LOGITS)]


class FakeModel:
    """Keeps what it was asked to run in `steps`: for each step, the rows of each run.

    during  called while a step runs; if it ends the step, nonsense is left behind, and one more is `n_cut`
    """

    def __init__(self, cut: Cut | None = None) -> None:
        self.steps: list[list[int]] = []
        self.cut, self.n_cut = cut or Cut(), 0
        self.during: Callable[[Sequence[Run]], None] = lambda _runs: None

    def step(self, runs: Sequence[Run]) -> np.ndarray:
        assert sum(len(run.tokens) for run in runs) <= N_BATCH
        assert sum(len(run.outputs) for run in runs) <= N_OUTPUTS
        self.during(runs)
        if self.cut.is_set:
            self.n_cut += 1
            for run in runs:
                for position in range(run.position, run.position + len(run.tokens)):
                    _word(run, position).value = 12345
            raise StepCut
        self.steps.append([len(run.tokens) for run in runs])
        rows = []
        for run in runs:
            state = _word(run, run.position - 1).value if run.position else 0
            for i, token in enumerate(run.tokens):
                state = next_state(state, token, run.position + i)
                _word(run, run.position + i).value = state
                if i in run.outputs:
                    rows.append(logits_of(state))
        return np.array(rows, np.float32).reshape(len(rows), N_VOCAB)


def _word(run: Run, position: int) -> ctypes.c_uint64:
    return ctypes.c_uint64.from_address(int(run.pages[position // PAGE]) + 8 * (position % PAGE))


class FakeSampler:
    """Draws by the Gumbel trick, with noise that depends on the seed and the position alone. Seed 0 is greedy."""

    end_ids: frozenset[int] = frozenset()

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.accepted = seed, list[int]()

    def sample(self, logits: np.ndarray) -> int:
        if not self.seed:
            return int(logits.argmax())
        return int((logits + _NOISE[(self.seed * 7 + len(self.accepted)) % len(_NOISE)]).argmax())

    def accept(self, token_id: int) -> None:
        self.accepted.append(token_id)

    def n_permitted(self, tokens: Sequence[int]) -> int:
        return len(tokens)


class Letters:
    """A decoder of one letter a token."""

    def push(self, token_id: int) -> str:
        return LETTERS[token_id]

    def finish(self) -> str:
        return ""


def request(prompt: Sequence[int], *, seed: int = 0, limits: Limits | None = None, **options) -> Request:
    return Request(list(prompt), FakeSampler(seed), Letters(), limits or Limits(end_ids=(EOG,)), **options)


def prompt(n: int, seed: int = 1) -> list[int]:
    return np.random.default_rng(seed).integers(0, EOG, n).tolist()


def alone(prompt: Sequence[int], n_ctx: int, *, seed: int = 0, limits: Limits) -> tuple[str, str]:
    """The text and finish reason of a request, without engine, cache or batch."""
    state, text, sampler = 0, "", FakeSampler(seed)
    for position, token in enumerate(prompt):
        state = next_state(state, token, position)
    while True:
        token = sampler.sample(logits_of(state))
        if token in limits.end_ids:
            return text, "stop"
        sampler.accept(token)
        text += LETTERS[token]
        ends = [text.find(s) for s in limits.stop if s and s in text]
        if ends:
            return text[: min(ends)], "stop"
        n = len(sampler.accepted)
        if n == limits.max_tokens or len(prompt) + n > n_ctx:
            return text, "length"
        state = next_state(state, token, len(prompt) + n - 1)


@dataclass
class Bench:
    """A loop over a fake model, and a record of its events."""

    n_ctx: int = 256
    n_slots: int = 8
    n_pages: int = 64
    n_batch: int = N_BATCH
    speculation: Speculation | None = None
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        cut = Cut()
        self.model = FakeModel(cut)
        ram_bytes = self.n_pages * PAGE_BYTES
        self.cache = KVCache(PAGE_BYTES, ram_bytes=ram_bytes, folder=None, fingerprint={}, disk_bytes=0)
        self.loop = Loop(
            self.model, self.cache, self.n_ctx, self.n_slots, self.n_batch, speculation=self.speculation, cut=cut
        )

    def submit(self, *requests: Request) -> Request:
        for r in requests:
            self.loop.submit(r)
        return requests[0]

    def steps(self, n: int) -> None:
        for _ in range(n):
            self.events += self.loop.step()

    def finish(self) -> None:
        """Run until nobody is left, and check that no page is lost."""
        while not self.loop.is_idle:
            self.steps(1)
        self.check_conserved()

    def check_conserved(self) -> None:
        self.cache.check_integrity()
        assert self.loop.stats().n_free == self.n_pages - len({p for r in self.running for p in pages(r)})

    @property
    def running(self) -> list[Request]:
        return self.loop._scheduler.running

    @property
    def waiting(self) -> list[Request]:
        return self.loop._scheduler.waiting

    def order_of(self, wanted: str) -> list[Request]:
        """Requests in the order in which they first had a token ("started") or finished ("finished")."""
        seen: dict[Request, None] = {}
        for event in self.events:
            if event.finish_reason if wanted == "finished" else event.tokens:
                seen.setdefault(event.request)
        return list(seen)


def pages(r: Request) -> list[int]:
    assert r.sequence
    return r.sequence.held_pages()


def upto(n: int) -> Limits:
    return Limits(max_tokens=n)


def expect_alone(r: Request, n_ctx: int) -> None:
    sampler = r.sampler
    assert isinstance(sampler, FakeSampler)
    text, reason = alone(r.ids[: r.n_prompt], n_ctx, seed=sampler.seed, limits=r.limits)
    assert (r.text, r.finish_reason) == (text, reason)


def shifting(ids: list[int], n_tokens: int, shift: Shift, seed: int) -> tuple[str, int]:
    """Text, and number of shifts, of an answer whose context is computed anew for every token."""
    ids, text, sampler, n_shifts = list(ids), "", FakeSampler(seed), 0
    while len(text) < n_tokens:
        if len(ids) > shift.n_ctx:
            n_kept = min(shift.n_keep, shift.n_ctx // 2)
            del ids[n_kept : n_kept + (len(ids) - n_kept) // 2]
            n_shifts += 1
        state = 0
        for position, token in enumerate(ids):
            state = next_state(state, token, position)
        ids.append(sampler.sample(logits_of(state)))
        sampler.accept(ids[-1])
        text += LETTERS[ids[-1]]
    return text, n_shifts
