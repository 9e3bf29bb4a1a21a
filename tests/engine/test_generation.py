"""An iterator over an engine that it drives itself."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from engine.fake_model import Bench, FakeSampler, Letters, alone, prompt, upto

from chenxing.engine import Engine, Generation

TOKENIZER = cast(Any, SimpleNamespace(stream_decoder=Letters))


class Engines(Bench):
    """A bench behind an engine's face."""

    is_driven = False

    def generation(self, i: int, sampler: FakeSampler | None = None, n: int = 9, **options: Any) -> Generation:
        sampler = sampler or FakeSampler(i)
        engine = cast(Engine, self)
        return Generation(engine, TOKENIZER, cast(Any, sampler), prompt(20, i), max_tokens=n, **options)

    def step(self) -> None:
        self.steps(1)


def expected(i: int, n: int = 9) -> str:
    return alone(prompt(20, i), 256, seed=i, limits=upto(n))[0]


def test_pieces_are_the_text_and_the_end_is_told_once() -> None:
    ended: list[Generation] = []
    g = Engines().generation(1, on_end=ended.append)
    assert "".join(g) == g.text == expected(1) and g.finish_reason == "length" and ended == [g]
    assert list(g) == [] and ended == [g]


def test_nothing_happens_before_the_first_piece() -> None:
    bench = Engines()
    g = bench.generation(1)
    assert bench.loop.is_idle and not bench.model.steps
    next(g)
    assert bench.model.steps == [[20]]


def test_generations_may_take_turns() -> None:
    bench = Engines()
    mine = [bench.generation(i) for i in range(3)]
    pieces = ["", "", ""]
    for _ in range(9):
        for i, g in enumerate(mine):
            pieces[i] += next(g, "")
    assert pieces == [expected(i) for i in range(3)]
    assert max(map(len, bench.model.steps)) == 3  # they shared steps


def test_prefill_is_reported() -> None:
    bench, seen = Engines(n_ctx=1000), []
    engine = cast(Engine, bench)
    g = Generation(
        engine, TOKENIZER, cast(Any, FakeSampler()), prompt(600), max_tokens=2, on_prefill=lambda *n: seen.append(n)
    )
    g.drain()
    assert seen == [(256, 600), (512, 600), (600, 600)]


def test_left_before_its_end_it_is_cancelled() -> None:
    bench, ended = Engines(), []
    g = bench.generation(1, n=99, on_end=ended.append)
    next(g)
    g._pieces.close()  # as when it is collected
    bench.finish()
    assert g.finish_reason == "cancelled" and not ended


def test_an_error_is_raised() -> None:
    class Broken(FakeSampler):
        def sample(self, logits: np.ndarray) -> int:
            raise ValueError("no such thing")

    bench = Engines()
    g = bench.generation(1, Broken())
    with pytest.raises(ValueError, match="no such thing"):
        next(g)
    assert g.finish_reason == "error"
    bench.finish()
