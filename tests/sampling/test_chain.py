import numpy as np
import pytest
from logit_rows import normal_row

from chenxing.sampling.candidates import all_tokens
from chenxing.sampling.chain import build_chain, is_greedy
from chenxing.sampling.history import History
from chenxing.sampling.params import SamplingParams


def n_steps(**params: object) -> int:
    return len(build_chain(SamplingParams(**params), History([]), lambda token: b"", lambda: 0.0))  # type: ignore[arg-type]


def test_samplers_that_are_off_are_left_out() -> None:
    assert n_steps() == 3  # top_k, top_p with min_p, temperature
    assert n_steps(top_k=0, top_p=1.0, min_p=0.0, temp=1.0) == 0


@pytest.mark.parametrize(
    "switched_on",
    [
        {"penalty_repeat": 1.1},
        {"penalty_freq": 0.1},
        {"penalty_present": 0.1},
        {"dry_multiplier": 0.8},
        {"top_n_sigma": 1.0},
        {"typ_p": 0.9},
        {"xtc_probability": 0.5},
    ],
)
def test_one_more_sampler(switched_on: dict[str, object]) -> None:
    assert n_steps(**switched_on, min_keep=2) == 5  # top_k, top_p, min_p, temperature are on by default
    assert n_steps(**switched_on, samplers=["top_k"]) == 1


@pytest.mark.parametrize(
    "off", [{"penalty_repeat": 1.1, "penalty_last_n": 0}, {"dry_multiplier": 1, "dry_penalty_last_n": 0}]
)
def test_looking_back_on_nothing_is_off(off: dict[str, object]) -> None:
    assert n_steps(**off) == n_steps()


def test_dynamic_temperature_around_one_is_on() -> None:
    assert n_steps(temp=1.0, dynatemp_range=0.5) == 3 and n_steps(temp=1.0) == 2


def test_top_p_and_min_p_are_one_step_where_nothing_is_between_them() -> None:
    def n(*samplers: str, **params: object) -> int:
        return n_steps(samplers=samplers, temp=2.0, **params)

    assert n("top_p", "min_p") == n("top_p", "xtc", "min_p") == 1  # xtc is off
    assert n("min_p", "top_p") == n("top_p", "temperature", "min_p") - 1 == n("top_p", "min_p", min_keep=2) == 2


def test_the_order_is_that_of_samplers() -> None:
    logits = normal_row(50, seed=1, spread=1.0)

    def left(*samplers: str) -> list[int]:
        params = SamplingParams(samplers=samplers, top_p=0.6, temp=2.0)
        candidates = all_tokens(logits)
        for step in build_chain(params, History([]), None, lambda: 0.0):
            candidates = step(candidates)
        return candidates.ids.tolist()

    assert len(left("top_p", "temperature")) < len(left("temperature", "top_p"))


@pytest.mark.parametrize(
    ("params", "greedy"),
    [
        ({"temp": 0.0}, True),
        ({"temp": -1.0}, True),
        ({"temp": 0.1}, False),
        ({"temp": 0.0, "dynatemp_range": 0.5}, False),
        ({"temp": 0.0, "samplers": ["top_k"]}, False),
        ({"temp": 0.0, "samplers": ["top_k"], "mirostat": 2}, True),
        ({"temp": 0.0, "dynatemp_range": 0.5, "mirostat": 1}, True),
    ],
)
def test_greedy(params: dict[str, object], greedy: bool) -> None:
    assert is_greedy(SamplingParams(**params)) is greedy  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("samplers", "n"),
    [
        (("penalties", "top_k", "top_p", "temperature", "xtc"), 1),
        (("top_k", "penalties", "min_p", "temperature"), 2),
        (("top_k", "xtc", "temperature"), 2),
        (("top_k", "typ_p", "top_p", "temperature"), 2),
        (("temperature", "top_k"), 0),
    ],
)
def test_a_greedy_chain_drops_what_cannot_change_the_likeliest(samplers: tuple[str, ...], n: int) -> None:
    assert n_steps(temp=0.0, samplers=samplers, penalty_repeat=1.1, xtc_probability=0.5, typ_p=0.9) == n


def test_dry_needs_texts() -> None:
    with pytest.raises(AssertionError, match="dry needs the texts of tokens"):
        build_chain(SamplingParams(dry_multiplier=1.0), History([]), None, lambda: 0.0)


def test_steps_read_the_history_when_they_run() -> None:
    history = History([])
    (step,) = build_chain(SamplingParams(samplers=["penalties"], penalty_present=1.0), history, None, lambda: 0.0)
    start = all_tokens(np.zeros(3, dtype=np.float32))
    history.append(1)
    assert step(start).logits.tolist() == [0, -1, 0]
    history.append(2)
    assert step(start).logits.tolist() == [0, -1, -1]
