"""Fields that every protocol shares: how tokens are chosen, and what is told of them.

Names are llama-server's, which holds OpenAI's among them. A field that is absent or null has the server's default.
Source: llama.cpp b11434, tools/server/README.md.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec

from chenxing.errors import UsageError
from chenxing.sampling import SamplingParams
from chenxing.server.failures import invalid

# field of a request -> of SamplingParams, where they differ
RENAMED = {
    "temperature": "temp",
    "typical_p": "typ_p",
    "repeat_last_n": "penalty_last_n",
    "repeat_penalty": "penalty_repeat",
    "presence_penalty": "penalty_present",
    "frequency_penalty": "penalty_freq",
}

Biases = dict[str, float | bool] | list[tuple[int | str, float | bool]]


class SamplingFields(msgspec.Struct, kw_only=True):
    seed: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    top_n_sigma: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    dynatemp_range: float | None = None
    dynatemp_exponent: float | None = None
    repeat_last_n: int | None = None
    repeat_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: list[str] | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    min_keep: int | None = None
    min_tokens: int | None = None
    ignore_eos: bool | None = None
    samplers: list[str] | str | None = None
    logit_bias: Biases | None = None


_PLAIN = tuple(name for name in SamplingFields.__struct_fields__ if name not in ("samplers", "logit_bias"))


def sampling_params(
    fields: SamplingFields, defaults: SamplingParams, tokenize: Callable[[str], list[int]]
) -> SamplingParams:
    """The request's parameters over the defaults. tokenize: for biases that name a text. Raises ApiError."""
    given: dict[str, Any] = {
        RENAMED.get(name, name): value for name in _PLAIN if (value := getattr(fields, name)) is not None
    }
    if fields.samplers is not None:
        given["samplers"] = fields.samplers.split(";") if isinstance(fields.samplers, str) else fields.samplers
    if fields.logit_bias is not None:
        given["logit_bias"] = _biases(fields.logit_bias, tokenize)
    try:
        return replace(defaults, **given)
    except UsageError as error:
        raise invalid(_in_their_words(str(error))) from None


def _biases(given: Biases, tokenize: Callable[[str], list[int]]) -> list[tuple[int, float]]:
    """OpenAI's object or llama-server's pairs; a text stands for each of its tokens, false for never."""
    pairs = given.items() if isinstance(given, dict) else given
    biases = []
    for token, bias in pairs:
        if bias is True:
            raise invalid("logit_bias: expected a number or false, found true")
        ids = [token] if isinstance(token, int) else [int(token)] if _is_id(token) else tokenize(token)
        biases += [(i, -math.inf if bias is False else float(bias)) for i in ids]
    return biases


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 12


def _in_their_words(message: str) -> str:
    """A message of SamplingParams with the request's name of the field."""
    name, colon, rest = message.partition(":")
    theirs = {ours: theirs for theirs, ours in RENAMED.items()}
    return f"{theirs.get(name, name)}{colon}{rest}"
