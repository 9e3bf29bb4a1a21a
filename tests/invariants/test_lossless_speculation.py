"""Speculation changes when tokens come and never which: greedy, sampled, in a crowd, preempted, under a grammar.

For toy models with weights, whose every answer is compared with the one it gets alone and without drafts.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from engine.fake_drafter import Longest
from engine.fake_model import N_VOCAB, PAGE_BYTES, Bench, FakeModel, Letters, logits_of, next_state
from reference.toys import TOYS, prompt

from chenxing import LLM
from chenxing.engine import Limits, Request, SpecOptions
from chenxing.engine.loop import Loop
from chenxing.engine.speculation import Drafter, NGramDrafter, Speculation
from chenxing.engine.speculation.draft_model import DraftModel
from chenxing.gguf import open_gguf
from chenxing.kernels.layout import PAGE
from chenxing.kernels.library import KernelLibrary
from chenxing.kvcache import KVCache
from chenxing.models import Model, load_model
from chenxing.models.model import page_bytes, read_model
from chenxing.sampling import Sampler, SamplingParams
from chenxing.sampling.grammar import Grammars
from chenxing.tokenizer import load_tokenizer

N_CTX = 8 * PAGE
GREEDY = [SamplingParams(temp=0.0)] * 50
SAMPLED = [
    SamplingParams(temp=1.0, top_k=0, top_p=1.0, min_p=0.0),
    SamplingParams(temp=0.0, penalty_repeat=1.3, penalty_freq=0.2, penalty_present=0.1),
    SamplingParams(temp=0.9, dry_multiplier=0.8),
    SamplingParams(temp=0.8, mirostat=1),
    SamplingParams(temp=0.8, mirostat=2, mirostat_tau=3.0),
    SamplingParams(temp=0.9, xtc_probability=0.5),
    SamplingParams(temp=0.7, dynatemp_range=0.5),
    SamplingParams(temp=1.0, logit_bias=[(30, 4.0), (40, -5.0)], min_tokens=20),
    SamplingParams(temp=0.3, top_n_sigma=1.0, ignore_eos=True),
    SamplingParams(temp=0.5, typ_p=0.7),
]


class Toy:
    """A toy model that runs loops, and the same or another one that drafts for it."""

    def __init__(self, folder: Path, name: str) -> None:
        path = folder / f"{name}.gguf"
        self.gguf = open_gguf(path if path.exists() else TOYS[name].write(folder))
        self.tokenizer = load_tokenizer(self.gguf)
        self.model = self.load()

    def load(self) -> Model:
        return load_model(self.gguf, read_model(self.gguf, N_CTX), KernelLibrary(), 1)

    def drafter(self) -> DraftModel:
        model = self.load()
        return DraftModel(model, self._cache(30), N_CTX, model.hp.n_vocab)

    def _cache(self, n_pages: int) -> KVCache:
        size = page_bytes(self.model.hp)
        return KVCache(size, ram_bytes=n_pages * size, folder=None, fingerprint={}, disk_bytes=0)

    def answers(self, requests: Sequence[Request], speculation: Speculation, n_pages: int = 40) -> list[list[int]]:
        """Of all of them together, eight at a time; in hardly any memory they preempt each other."""
        cache = self._cache(n_pages)
        loop = Loop(self.model, cache, N_CTX, 8, speculation=speculation)
        for r in requests:
            loop.submit(r)
        while not loop.is_idle:
            loop.step()
        cache.check_integrity()
        assert loop.stats().n_free == n_pages and (loop.stats().n_preemptions > 0) == (n_pages < 10)
        assert all(r.finish_reason in ("stop", "length") for r in requests)
        speculation.close()
        return [r.token_ids for r in requests]

    def alone(self, request: Request) -> list[int]:
        loop = Loop(self.model, self._cache(9), N_CTX, 1)
        loop.submit(request)
        while not loop.is_idle:
            loop.step()
        return request.token_ids

    def request(self, i: int, params: SamplingParams, constraint: str = "", max_tokens: int = 0) -> Request:
        ids = prompt(5 + (0 if max_tokens else 37 * i % 90), 1 + i % 7)
        n_vocab = self.model.hp.n_vocab
        sampler = Sampler(
            params,
            n_vocab,
            token_text=self.tokenizer.token_bytes,
            eog_ids=self.tokenizer.eog_ids,
            prompt=ids,
            constraint=Grammars(self.tokenizer, n_vocab).any_of(regex=constraint) if constraint else None,
        )
        sampler.seed = i
        limits = Limits(max_tokens or 20 + 7 * i % 40, self.tokenizer.eog_ids)
        return Request(ids, sampler, self.tokenizer.stream_decoder(), limits)


class Mistaken:
    """Another drafter's drafts, with mistakes."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter, self._rng = drafter, random.Random(3)
        self.name, self.prior = drafter.name, drafter.prior
        self.outlook, self.forget, self.close = drafter.outlook, drafter.forget, drafter.close

    def draft(self, wanted: Sequence[tuple[Request, int]]) -> list[list[int] | None]:
        drafts = self._drafter.draft(wanted)
        return [d and [t if self._rng.random() < 0.8 else self._rng.randrange(300) for t in d] for d in drafts]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("toys")


@pytest.fixture(scope="module")
def toy(folder: Path) -> Iterator[Toy]:
    toy = Toy(folder, "qwen3-Q4_K")
    yield toy
    toy.model.close()


@pytest.fixture(scope="module")
def plain(toy: Toy) -> dict[str, list[list[int]]]:
    """Answers without drafts, each alone."""
    return {
        "greedy": [toy.alone(toy.request(i, p)) for i, p in enumerate(GREEDY)],
        "sampled": [toy.alone(toy.request(i, p)) for i, p in enumerate(SAMPLED * 2)],
    }


def drafter_of(kind: str, toy: Toy, folder: Path) -> Drafter:
    if kind == "ngram":
        return NGramDrafter()
    if kind == "another":
        other = Toy(folder, "qwen2")
        other.model.close()
        return other.drafter()
    return toy.drafter() if kind == "itself" else Mistaken(toy.drafter())


@pytest.mark.parametrize("kind", ["ngram", "another", "itself", "mistaken"])
@pytest.mark.parametrize("n_draft", [1, 2, 4, 8])
def test_greedy_answers(kind: str, n_draft: int, toy: Toy, plain: dict[str, list[list[int]]], folder: Path) -> None:
    mine = [toy.request(i, p) for i, p in enumerate(GREEDY)]
    speculation = Speculation(drafter_of(kind, toy, folder), n_draft, policy=Longest())
    assert toy.answers(mine, speculation) == plain["greedy"]
    counts = speculation.counts
    assert counts.n_tokens > 20 and (counts.n_accepted > 10 or kind == "another")
    assert kind != "itself" or counts.n_accepted == counts.n_tokens


@pytest.mark.parametrize("kind", ["ngram", "itself", "mistaken"])
def test_sampled_answers(kind: str, toy: Toy, plain: dict[str, list[list[int]]], folder: Path) -> None:
    mine = [toy.request(i, p) for i, p in enumerate(SAMPLED * 2)]
    speculation = Speculation(drafter_of(kind, toy, folder), 4, policy=Longest())
    assert toy.answers(mine, speculation) == plain["sampled"]
    assert speculation.counts.n_accepted > 5


def test_answers_under_a_grammar(toy: Toy, folder: Path) -> None:
    form, params = "(the |star |[a-f]{2,4}, ){4,12}", [SamplingParams(temp=t) for t in (0.0, 0.7, 1.5)] * 4
    alone = [toy.alone(toy.request(i, p, form)) for i, p in enumerate(params)]
    for kind in ("ngram", "itself"):
        mine = [toy.request(i, p, form) for i, p in enumerate(params)]
        speculation = Speculation(drafter_of(kind, toy, folder), 4, policy=Longest())
        assert toy.answers(mine, speculation) == alone
        assert speculation.counts.n_tokens


@pytest.mark.parametrize("kind", ["ngram", "itself", "mistaken"])
def test_preempted_answers(kind: str, toy: Toy, folder: Path) -> None:
    params = [SamplingParams(temp=(0.0, 0.6)[i % 2], ignore_eos=True) for i in range(6)]
    alone = [toy.alone(toy.request(i, p, max_tokens=140)) for i, p in enumerate(params)]
    mine = [toy.request(i, p, max_tokens=140) for i, p in enumerate(params)]
    speculation = Speculation(drafter_of(kind, toy, folder), 6, policy=Longest())
    assert toy.answers(mine, speculation, n_pages=9) == alone
    assert speculation.counts.n_accepted > 20


def test_lengths_that_follow_time(toy: Toy, plain: dict[str, list[list[int]]]) -> None:
    """As in use: how much is drafted depends on the clock."""
    mine = [toy.request(i, p) for i, p in enumerate(GREEDY)]
    assert toy.answers(mine, Speculation(NGramDrafter())) == plain["greedy"]


# ---- the distribution of what is sampled ----

SIGNIFICANCE_Z = 3.72  # one-sided, 1e-4: the seeds are fixed, so it passes or fails for good
N_TOP, N_TOKENS, N_ANSWERS = 4, 3, 2500
START = [3]


class SmallModel(FakeModel):
    def close(self) -> None:
        pass


def exact_shares(temp: float) -> dict[tuple[int, ...], float]:
    """The probability of each answer of N_TOKENS tokens, multiplied out."""
    shares = {(): (1.0, next_state(0, START[0], 0))}
    for place in range(N_TOKENS):
        longer: dict[tuple[int, ...], tuple[float, int]] = {}
        for tokens, (share, state) in shares.items():
            logits = logits_of(state).astype(np.float64)
            top = np.argsort(-logits)[:N_TOP]
            weights = np.exp((logits[top] - logits[top[0]]) / temp)
            for token, weight in zip(top.tolist(), weights / weights.sum(), strict=True):
                longer[*tokens, token] = share * weight, next_state(state, token, 1 + place)
        shares = longer  # type: ignore[assignment]
    return {tokens: share for tokens, (share, _) in shares.items()}


def chi_square(answers: list[tuple[int, ...]], shares: dict[tuple[int, ...], float]) -> float:
    """How many standard deviations the statistic is above its mean (Wilson and Hilferty's transformation)."""
    counts = dict.fromkeys(shares, 0)
    for answer in answers:
        counts[answer] += 1
    expected = {tokens: share * len(answers) for tokens, share in shares.items()}
    cells = [(counts[t], e) for t, e in expected.items() if e >= 5]
    rest = [(counts[t], e) for t, e in expected.items() if e < 5]
    cells += [tuple(map(sum, zip(*rest, strict=True)))] if rest else []  # type: ignore[list-item]
    x, df = sum((n - e) ** 2 / e for n, e in cells), len(cells) - 1
    return ((x / df) ** (1 / 3) - (1 - 2 / (9 * df))) / (2 / (9 * df)) ** 0.5


def sampled_answers(temp: float) -> list[tuple[int, ...]]:
    cache = KVCache(PAGE_BYTES, ram_bytes=64 * PAGE_BYTES, folder=None, fingerprint={}, disk_bytes=0)
    speculation = Speculation(DraftModel(SmallModel(), cache, 256, N_VOCAB), 2, policy=Longest())
    bench = Bench(n_slots=8, speculation=speculation)
    chain = {"samplers": ["top_k", "temperature"], "top_k": N_TOP, "temp": temp}
    samplers = [Sampler(SamplingParams(seed=i, **chain), N_VOCAB) for i in range(N_ANSWERS)]
    mine = [Request(START, sampler, Letters(), Limits(N_TOKENS)) for sampler in samplers]
    for first in range(0, N_ANSWERS, 50):
        bench.submit(*mine[first : first + 50])
        bench.finish()
    counts = speculation.counts
    assert 0.2 * counts.n_tokens < counts.n_accepted < 0.8 * counts.n_tokens
    return [tuple(r.token_ids) for r in mine]


def test_sampled_answers_have_the_models_distribution() -> None:
    answers = sampled_answers(1.0)
    assert chi_square(answers, exact_shares(1.0)) < SIGNIFICANCE_Z
    assert chi_square(answers, exact_shares(0.8)) > SIGNIFICANCE_Z  # it sees a temperature that is wrong by a fifth


# ---- a real model ----


@pytest.mark.model
@pytest.mark.slow
def test_a_real_model(smollm2_path: Path) -> None:
    code = "def area(width, height):\n    return width * height\n\ndef volume(width, height, depth):\n    return"
    texts = [code, "List the numbers from one to twenty, one a line.", "Say 'the rain in Spain' ten times."]
    params = [SamplingParams(temp=0.0), SamplingParams(temp=0.7, seed=5), SamplingParams(temp=0.0, penalty_repeat=1.1)]
    found = []
    for options in (SpecOptions("none"), SpecOptions(), SpecOptions(model_draft=str(smollm2_path))):
        with LLM.load(smollm2_path, n_ctx=512, disk_cache=False, cache_ram_bytes=0, speculation=options) as llm:
            answers = [llm.generate(t, params=p, max_tokens=60) for t, p in zip(texts, params, strict=True)]
            found.append([answer.token_ids for answer in answers])
            drafts = [answer.stats.drafts for answer in answers]
            assert any(d.n_tokens for d in drafts) == (options.kind != "none")
    assert found[0] == found[1] == found[2]
