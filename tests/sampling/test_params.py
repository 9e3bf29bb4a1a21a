import math
from dataclasses import FrozenInstanceError, asdict, replace
from typing import Any

import pytest

from chenxing.errors import UsageError
from chenxing.sampling import SamplingParams
from chenxing.sampling.params import _RANGES
from chenxing.sampling.sequence import DEFAULT_SAMPLERS


def test_defaults_are_llama_cpps() -> None:
    """common/common.h of llama.cpp b11434."""
    defaults = asdict(SamplingParams())
    assert defaults == {
        "seed": -1,
        "temp": 0.8,
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.05,
        "typ_p": 1.0,
        "top_n_sigma": -1.0,
        "xtc_probability": 0.0,
        "xtc_threshold": 0.1,
        "dynatemp_range": 0.0,
        "dynatemp_exponent": 1.0,
        "penalty_last_n": 64,
        "penalty_repeat": 1.0,
        "penalty_freq": 0.0,
        "penalty_present": 0.0,
        "dry_multiplier": 0.0,
        "dry_base": 1.75,
        "dry_allowed_length": 2,
        "dry_penalty_last_n": 64,
        "dry_sequence_breakers": ("\n", ":", '"', "*"),
        "mirostat": 0,
        "mirostat_tau": 5.0,
        "mirostat_eta": 0.1,
        "min_keep": 0,
        "samplers": DEFAULT_SAMPLERS,
        "logit_bias": (),
        "ignore_eos": False,
        "min_tokens": 0,
    }
    chain = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"
    assert ";".join(DEFAULT_SAMPLERS) == chain


def test_every_number_has_a_range() -> None:
    numbers = {name for name, value in asdict(SamplingParams()).items() if type(value) in (int, float)}
    assert numbers == set(_RANGES)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("top_p", 1.5, "top_p: expected a number from 0 to 1, found 1.5"),
        ("top_p", "0.5", "top_p: expected a number from 0 to 1, found '0.5'"),
        ("min_p", -0.1, "min_p: expected a number from 0 to 1, found -0.1"),
        ("temp", math.nan, "temp: expected a number, found nan"),
        ("temp", math.inf, "temp: expected a number, found inf"),
        ("temp", 10**400, "temp: expected a number, found 1000"),
        ("temp", True, "temp: expected a number, found True"),
        ("temp", None, "temp: expected a number, found None"),
        ("dynatemp_range", -1, "dynatemp_range: expected a number of at least 0, found -1"),
        ("top_k", 1.5, "top_k: expected an integer from -2147483648 to 2147483647, found 1.5"),
        ("top_k", math.nan, "top_k: expected an integer"),
        ("seed", -2, "seed: expected an integer from -1 to 18446744073709551615, found -2"),
        ("seed", 2**64, "seed: expected an integer"),
        ("penalty_repeat", 0, "penalty_repeat: expected a number from 1e-06 to 1000000, found 0"),
        ("penalty_last_n", -2, "penalty_last_n: expected an integer from -1"),
        ("dry_base", 0.9, "dry_base: expected a number from 1 to"),
        ("mirostat", 3, "mirostat: expected an integer from 0 to 2, found 3"),
        ("ignore_eos", 1, "ignore_eos: expected true or false, found 1"),
        ("samplers", "top_k", "samplers: expected a list of strings, found 'top_k'"),
        ("samplers", ["topp", "best"], "samplers: expected names among"),
        ("dry_sequence_breakers", ["\n", 1], "dry_sequence_breakers: expected a list of strings, found 1 in it"),
        ("dry_sequence_breakers", None, "dry_sequence_breakers: expected a list of strings, found None"),
        ("logit_bias", [(1, math.nan)], "logit_bias: expected a token id and a bias up to 1e6, found 1: nan"),
        ("logit_bias", [(1, math.inf)], "logit_bias: expected a token id and a bias"),
        ("logit_bias", [(-1, 1.0)], "logit_bias: expected a token id and a bias"),
        ("logit_bias", [("the", 1.0)], "logit_bias: expected a token id and a bias"),
        ("logit_bias", [(True, 1.0)], "logit_bias: expected a token id and a bias"),
        ("logit_bias", [(1, "high")], "logit_bias: expected pairs"),
        ("logit_bias", [1], "logit_bias: expected pairs"),
        ("logit_bias", 5, "logit_bias: expected pairs"),
    ],
)
def test_what_cannot_be_meant_is_an_error(field: str, value: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        SamplingParams(**{field: value})
    assert str(caught.value).startswith(message)


def test_values_get_the_type_of_their_field() -> None:
    params = SamplingParams(temp=1, top_k=20.0, samplers=["temp", "top-k"], dry_sequence_breakers=["."])
    assert isinstance(params.temp, float) and isinstance(params.top_k, int)
    assert params.samplers == ("temperature", "top_k") and params.dry_sequence_breakers == (".",)


def test_biases_of_a_token_add_up() -> None:
    given = [(5, 1), (7, -math.inf), (5, 0.5)]
    assert SamplingParams(logit_bias=given).logit_bias == ((5, 1.5), (7, -math.inf))
    assert SamplingParams(logit_bias={5: 2}).logit_bias == ((5, 2.0),)
    again = SamplingParams(logit_bias=given)
    assert replace(again, temp=0.5).logit_bias == again.logit_bias


def test_frozen_and_replaced_with_checks() -> None:
    params = SamplingParams()
    with pytest.raises(FrozenInstanceError):
        params.temp = 1.0  # type: ignore[misc]
    assert replace(params, temp=0.5).temp == 0.5
    with pytest.raises(UsageError, match="top_p"):
        replace(params, top_p=2)


def test_a_model_files_recommendations() -> None:
    metadata = {
        "general.name": "x",
        "general.sampling.temp": 0.6,
        "general.sampling.top_k": 20,
        "general.sampling.top_p": 0.9,
        "general.sampling.min_p": 0.1,
        "general.sampling.xtc_probability": 0.2,
        "general.sampling.xtc_threshold": 0.3,
        "general.sampling.penalty_last_n": 32,
        "general.sampling.penalty_repeat": 1.1,
        "general.sampling.mirostat": 2,
        "general.sampling.mirostat_tau": 4.0,
        "general.sampling.mirostat_eta": 0.2,
        "general.sampling.sequence": "top_k;min_p;temperature",
        "general.sampling.of_another_kind": 3,
        "general.sampling.seed": 5,
    }
    expected = SamplingParams(
        temp=0.6,
        top_k=20,
        top_p=0.9,
        min_p=0.1,
        xtc_probability=0.2,
        xtc_threshold=0.3,
        penalty_last_n=32,
        penalty_repeat=1.1,
        mirostat=2,
        mirostat_tau=4.0,
        mirostat_eta=0.2,
        samplers=("top_k", "min_p", "temperature"),
    )
    assert SamplingParams.from_metadata(metadata) == expected
    assert SamplingParams.from_metadata({}) == SamplingParams()


def test_a_recommendation_that_cannot_be_meant_names_the_file_and_the_key() -> None:
    with pytest.raises(UsageError, match=r"the model file's general\.sampling\.\*: top_p: expected .* found 7"):
        SamplingParams.from_metadata({"general.sampling.top_p": 7})
