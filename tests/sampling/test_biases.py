import math
from typing import Any

import pytest

from chenxing.errors import UsageError
from chenxing.sampling import SamplingParams, token_biases


def encode(text: str) -> list[int]:
    return [ord(c) for c in text]


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        ([[5, 1.5], [7, -2]], ((5, 1.5), (7, -2.0))),
        ({"5": 1.5, "7": False}, ((5, 1.5), (7, -math.inf))),
        ({5: 1}, ((5, 1.0),)),
        ([["aba", 2]], ((97, 2.0), (98, 2.0))),
        ({"ab": False}, ((97, -math.inf), (98, -math.inf))),
        ([], ()),
        ([["7", 1]], ((55, 1.0),)),  # in a list a text is a text
    ],
)
def test_ids_and_texts(given: Any, pairs: tuple[tuple[int, float], ...]) -> None:
    assert token_biases(given, encode) == pairs
    SamplingParams(logit_bias=pairs)


@pytest.mark.parametrize("given", [None, 3, "ab", [3], [[1, 2, 3]], [[1, True]], [[1, None]], {"a": "b"}])
def test_what_cannot_be_meant(given: Any) -> None:
    with pytest.raises(UsageError, match=r"^logit_bias: expected"):
        token_biases(given, encode)
