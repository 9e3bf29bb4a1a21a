import pytest

from chenxing.errors import UsageError
from chenxing.sampling.sequence import DEFAULT_SAMPLERS, canonical_samplers


def test_own_names_stay() -> None:
    assert canonical_samplers(DEFAULT_SAMPLERS) == DEFAULT_SAMPLERS


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("top-k", "top_k"),
        ("TopK", "top_k"),
        (" min_p ", "min_p"),
        ("nucleus", "top_p"),
        ("temp", "temperature"),
        ("typ", "typ_p"),
        ("top-n-sigma", "top_n_sigma"),
        ("topnsigma", "top_n_sigma"),
        ("DRY", "dry"),
    ],
)
def test_other_spellings(given: str, name: str) -> None:
    assert canonical_samplers([given]) == (name,)


def test_empty_names_are_left_out() -> None:
    assert canonical_samplers(["", "top_k", " "]) == ("top_k",)


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"samplers: expected names among penalties, .*, found 'top_q'"):
        canonical_samplers(["top_k", "top_q"])
