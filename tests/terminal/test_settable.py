import pytest

from chenxing.errors import UsageError
from chenxing.sampling import SamplingParams
from chenxing.terminal.session import Options
from chenxing.terminal.settable import change, current_values, read_length


@pytest.fixture
def options() -> Options:
    return Options(SamplingParams())


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("temperature", "0.2", "temp", 0.2),
        ("temp", "0", "temp", 0.0),
        ("--top-k", "5", "top_k", 5),
        ("TOP_K", "5", "top_k", 5),
        ("repeat_penalty", "1.1", "penalty_repeat", 1.1),
        ("penalty_repeat", "1.1", "penalty_repeat", 1.1),
        ("seed", "7", "seed", 7),
        ("samplers", "top_k;temperature", "samplers", ("top_k", "temperature")),
        ("logit_bias", "5+1 6-inf", "logit_bias", ((5, 1.0), (6, float("-inf")))),
    ],
)
def test_names_are_those_of_flags_and_fields(options, name: str, value: str, field: str, expected: object) -> None:
    change(options, name, value)
    assert getattr(options.params, field) == expected


def test_the_new_value_is_said(options) -> None:
    assert change(options, "temperature", "0.2") == "temp is 0.2"
    assert change(options, "temp", "") == "temp is 0.2"


def test_the_length_of_answers(options) -> None:
    assert change(options, "n_predict", "100") == "n_predict is 100" and options.max_tokens == 100
    assert change(options, "max_tokens", "-1") == "n_predict is -1" and options.max_tokens is None


def test_an_unknown_name_brings_the_nearest(options) -> None:
    with pytest.raises(UsageError, match=r"/set temprature: unknown setting: did you mean temperature\?"):
        change(options, "temprature", "1")
    with pytest.raises(UsageError, match=r"/set colour: unknown setting \(/set lists the settings\)"):
        change(options, "colour", "1")


@pytest.mark.parametrize(("name", "value"), [("temp", "warm"), ("top_p", "2"), ("n_predict", "-5"), ("n", "all")])
def test_a_value_that_cannot_be_meant_changes_nothing(options, name: str, value: str) -> None:
    with pytest.raises(UsageError, match="expected a number"):
        change(options, name, value)
    assert options == Options(SamplingParams())


def test_all_values_are_listed(options) -> None:
    lines = dict(line.split(maxsplit=1) for line in current_values(options).splitlines())
    assert lines["n_predict"] == "-1" and lines["temp"] == "0.8" and lines["logit_bias"] == "none"
    assert lines["samplers"].startswith("penalties dry") and lines["dry_sequence_breakers"] == r'\n : " *'


@pytest.mark.parametrize(("text", "expected"), [("-1", None), ("-2", None), ("0", 0), ("12", 12)])
def test_lengths(text: str, expected: int | None) -> None:
    assert read_length(text, "-n") == expected
