"""Exact results of llama.cpp: single samplers on known probabilities, queues on a large vocabulary, whole chains."""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from logit_rows import candidates_of

from chenxing.sampling import Sampler, SamplingParams
from chenxing.sampling.adjust import penalties
from chenxing.sampling.candidates import Candidates, all_tokens, probabilities
from chenxing.sampling.dry import Breakers, dry
from chenxing.sampling.temperature import dynamic_temp, temp
from chenxing.sampling.truncation import min_p, top_k, top_n_sigma, top_p
from chenxing.sampling.typical import typ_p
from chenxing.sampling.xtc import xtc

DATA = Path(__file__).parents[1] / "data"
SINGLE = json.loads((DATA / "sampling.json").read_text())
PEER = json.loads((DATA / "sampling_llamacpp.json").read_text(encoding="utf-8"))

TOLERANCE = 1e-5  # both files are written with six digits


def after(case: dict[str, Any], start: Candidates) -> Candidates:
    match case["sampler"]:
        case "temp":
            return temp(start, case["temp"])
        case "temp_ext":
            return dynamic_temp(start, case["temp"], case["dynatemp_range"], case["dynatemp_exponent"])
        case "top_k":
            return top_k(start, case["top_k"])
        case "top_p":
            return top_p(start, case["top_p"])
        case "min_p":
            return min_p(start, case["min_p"])
        case "xtc":
            return xtc(start, case["probability"], case["threshold"], uniform=0.5)
        case "typical":
            return typ_p(start, case["typ_p"])
        case "top_n_sigma":
            return top_n_sigma(start, case["n"])
        case "penalties":
            strength = case["repeat"], case["frequency"], case["presence"]
            return penalties(start, np.array(case["history"]), *strength)
        case "dry":
            texts = ["".join(map(chr, breaker)) for breaker in case["breakers"]]
            breakers = Breakers(texts, lambda token: bytes([token]))
            window = np.array(case["history"][-case["last_n"] :])
            return dry(start, window, breakers, case["multiplier"], case["base"], case["allowed_length"])
    raise AssertionError(case["sampler"])


@pytest.mark.parametrize("case", [case for case in SINGLE if case["sampler"] != "sampler_queue"], ids=str)
def test_one_sampler(case: dict[str, Any]) -> None:
    start = candidates_of(case["probabilities"])
    left = after(case, start)
    # xtc and typical are recorded with the probabilities from before, all others with those of what is left
    recorded_before = case["sampler"] in ("xtc", "typical")
    found = probabilities(start.logits)[left.ids] if recorded_before else probabilities(left.logits)
    np.testing.assert_allclose(found, case["left"], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("case", [case for case in SINGLE if case["sampler"] == "sampler_queue"], ids=str)
def test_queue(case: dict[str, Any]) -> None:
    """Token i has a weight of i, so that each sampler leaves the ids from some lowest one up, which integers tell."""
    with np.errstate(divide="ignore"):
        left = all_tokens(np.log(np.arange(case["n_vocab"], dtype=np.float32)))
    lowest, highest = 0, case["n_vocab"] - 1
    for letter in case["queue"]:
        if letter == "k":
            left = top_k(left, case["top_k"])
            lowest = max(lowest, highest + 1 - case["top_k"])
        elif letter == "p":
            left = top_p(left, case["top_p"], min_keep=1)
            lowest = lowest_of_mass(lowest, highest, Fraction(str(case["top_p"])))
        else:
            left = min_p(left, case["min_p"], min_keep=1)
            lowest = max(lowest, math.ceil(Fraction(str(case["min_p"])) * highest))
        expected = range(highest, lowest - 1, -1)
        assert left.ids.tolist() == list(expected if left.sorted else reversed(expected))


def lowest_of_mass(lowest: int, highest: int, share: Fraction) -> int:
    """The lowest of the fewest ids, counted from the highest, whose sum is at least that share of the whole sum."""
    if share == 1:
        return lowest
    goal, mass = share * sum(range(lowest, highest + 1)), highest
    at = highest
    while mass < goal:
        at -= 1
        mass += at
    return at


@pytest.mark.parametrize("case", PEER["cases"], ids=lambda case: f"{case['params']}-{case['rows'][0]}")
def test_chain(case: dict[str, Any]) -> None:
    """Whole chains; those of mirostat over several tokens, each time with the token that llama.cpp chose."""
    texts = [text.encode() for text in PEER["texts"]]
    params = SamplingParams(seed=1, **case["params"])
    sampler = Sampler(params, len(texts), token_text=texts.__getitem__, prompt=case["history"])
    for name, step in zip(case["rows"], case["steps"], strict=True):
        ids, shares = sampler.probabilities(np.array(PEER["rows"][name], dtype=np.float32))
        found, expected = dict(zip(ids.tolist(), shares.tolist(), strict=True)), dict(step["left"])
        # below, some exp() give a subnormal number and others zero
        assert {id for id in found if found[id] > 1e-30} == {id for id in expected if expected[id] > 1e-30}
        assert all(abs(found.get(id, 0.0) - share) < TOLERANCE for id, share in expected.items())
        sampler.accept(step["chosen"])
