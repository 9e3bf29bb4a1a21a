import argparse
from dataclasses import fields

import pytest

from chenxing.errors import UsageError
from chenxing.sampling import SamplingParams
from chenxing.terminal.parser import Parser
from chenxing.terminal.sampling_flags import SAMPLING_FLAGS, add_sampling_flags, given_sampling, read_flag


def parse(*argv: str) -> argparse.Namespace:
    parser = Parser(prog="chenxing run")
    add_sampling_flags(parser.add_argument_group("sampling"))
    return parser.parse(argv)


def test_nothing_given_is_nothing_set() -> None:
    assert given_sampling(parse()) == {}


@pytest.mark.parametrize(
    ("argv", "field", "value"),
    [
        (["-s", "42"], "seed", 42),
        (["--seed", "-1"], "seed", -1),
        (["--temp", "0"], "temp", 0.0),
        (["--temperature", "1.5"], "temp", 1.5),
        (["--top-k", "0"], "top_k", 0),
        (["--top-p", "0.9"], "top_p", 0.9),
        (["--min-p", ".1"], "min_p", 0.1),
        (["--top-nsigma", "2"], "top_n_sigma", 2.0),
        (["--top-n-sigma", "-1"], "top_n_sigma", -1.0),
        (["--typical", "0.5"], "typ_p", 0.5),
        (["--typical-p", "0.5"], "typ_p", 0.5),
        (["--xtc-probability", "0.5"], "xtc_probability", 0.5),
        (["--xtc-threshold", "0.2"], "xtc_threshold", 0.2),
        (["--repeat-last-n", "128"], "penalty_last_n", 128),
        (["--repeat-penalty", "1.1"], "penalty_repeat", 1.1),
        (["--presence-penalty", "-0.5"], "penalty_present", -0.5),
        (["--frequency-penalty", "1e-1"], "penalty_freq", 0.1),
        (["--dry-multiplier", "0.8"], "dry_multiplier", 0.8),
        (["--dry-base", "2"], "dry_base", 2.0),
        (["--dry-allowed-length", "3"], "dry_allowed_length", 3),
        (["--dry-penalty-last-n", "-1"], "dry_penalty_last_n", -1),
        (["--dry-sequence-breaker", r"\n", "--dry-sequence-breaker", "-"], "dry_sequence_breakers", ("\n", "-")),
        (["--dry-sequence-breaker", "none"], "dry_sequence_breakers", ()),
        (["--dynatemp-range", "0.3"], "dynatemp_range", 0.3),
        (["--dynatemp-exp", "2"], "dynatemp_exponent", 2.0),
        (["--mirostat", "2"], "mirostat", 2),
        (["--mirostat-lr", "0.2"], "mirostat_eta", 0.2),
        (["--mirostat-ent", "3"], "mirostat_tau", 3.0),
        (["-l", "15043+1", "--logit-bias", "7-inf"], "logit_bias", ((15043, 1.0), (7, float("-inf")))),
        (["--samplers", "top_k;temperature"], "samplers", ("top_k", "temperature")),
        (["--ignore-eos"], "ignore_eos", True),
    ],
)
def test_a_flag_sets_its_field(argv: list[str], field: str, value: object) -> None:
    given = given_sampling(parse(*argv))
    assert given == {field: value}
    assert getattr(SamplingParams(**given), field) == value


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--top-k", "many"], "--top-k: expected a number, found 'many'"),
        (["--top-k", "1.5"], "--top-k: expected a number, found '1.5'"),
        (["--temp", "nan"], "--temperature: expected a number, found 'nan'"),
        (["--temp", "inf"], "--temperature: expected a number, found 'inf'"),
        (["--top-p", "1.5"], "top_p: expected a number from 0 to 1, found 1.5"),
        (["--mirostat", "3"], "mirostat: expected an integer from 0 to 2, found 3"),
        (["-l", "15043"], "--logit-bias: expected TOKEN_ID+BIAS or TOKEN_ID-BIAS, found '15043'"),
        (["-l", "hello+1"], "--logit-bias: expected TOKEN_ID+BIAS or TOKEN_ID-BIAS, found 'hello+1'"),
        (["--samplers", "top_k;best"], "found 'best'"),
        (["--temp"], "expected one argument"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(argv: list[str], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        given_sampling(parse(*argv))
    assert complaint in str(caught.value)


def test_every_field_that_a_person_sets_has_a_flag() -> None:
    internal = {"ignore_eos", "min_keep", "min_tokens"}  # a switch of its own; requests of programs only
    assert {flag.field for flag in SAMPLING_FLAGS} == {field.name for field in fields(SamplingParams)} - internal


@pytest.mark.parametrize("flag", [flag for flag in SAMPLING_FLAGS if not flag.many and flag.field != "samplers"])
def test_the_help_names_the_real_default(flag) -> None:
    shown = flag.help[flag.help.rindex("(") + 1 : -1]
    assert read_flag(flag, shown) == getattr(SamplingParams(), flag.field)


def test_the_help_names_the_real_sequence_breakers() -> None:
    (flag,) = (flag for flag in SAMPLING_FLAGS if flag.field == "dry_sequence_breakers")
    shown = flag.help[flag.help.rindex("(") + 1 : -1]
    assert read_flag(flag, shown.split()) == SamplingParams().dry_sequence_breakers
