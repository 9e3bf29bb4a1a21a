"""logit_bias as requests write it: token ids or texts, numbers or false.

Source: llama.cpp b11434, tools/server: what /completion and /v1/chat/completions take.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from chenxing.errors import UsageError


def token_biases(given: Any, encode: Callable[[str], list[int]]) -> tuple[tuple[int, float], ...]:
    """Pairs of token id and bias, for SamplingParams.logit_bias.

    given   a list of pairs [token, bias], or an object {token: bias}, whose keys of digits are ids. A token is an id or
            a text, all of whose tokens get the bias; false as a bias bans
    encode  the tokens of a text, without any around it

    Raises UsageError for anything else.
    """
    if isinstance(given, Mapping):
        pairs: list[Any] = [[int(key) if _is_id(key) else key, bias] for key, bias in given.items()]
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes):
        pairs = list(given)
    else:
        raise UsageError(f"logit_bias: expected an object or a list of pairs, found {given!r:.200}")
    return tuple((token, bias) for pair in pairs for token, bias in _of_pair(pair, encode))


def _of_pair(pair: Any, encode: Callable[[str], list[int]]) -> list[tuple[int, float]]:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise UsageError(f"logit_bias: expected a pair of token and bias, found {pair!r:.200}")
    token, bias = pair
    if bias is False:
        bias = float("-inf")
    if isinstance(bias, bool) or not isinstance(bias, int | float):
        raise UsageError(f"logit_bias: expected a number or false as the bias of {token!r:.200}, found {bias!r:.200}")
    if isinstance(token, str):
        return [(id_, float(bias)) for id_ in dict.fromkeys(encode(token))]
    return [(token, float(bias))]


def _is_id(key: Any) -> bool:
    return isinstance(key, str) and key.isascii() and key.isdigit()
