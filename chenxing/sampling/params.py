"""The parameters of the sampler chain, with llama.cpp's names and defaults.

Names are those of GGUF's general.sampling.* keys and of llama.cpp's common_params_sampling. A parameter that cannot be
meant raises UsageError; nothing is clamped in silence. To change some of them use dataclasses.replace(), which checks
again. Source: llama.cpp b11434, common/common.h.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from chenxing.errors import UsageError
from chenxing.sampling.sequence import DEFAULT_SAMPLERS, canonical_samplers

_PREFIX = "general.sampling."

# what a model file may recommend; general.sampling.sequence is the chain, divided by semicolons
_RECOMMENDED = (
    *("temp", "top_k", "top_p", "min_p", "xtc_probability", "xtc_threshold"),
    *("penalty_last_n", "penalty_repeat", "mirostat", "mirostat_tau", "mirostat_eta"),
)

_ANY = 1e30  # an end of a range that no sane value reaches, and that f32 can hold

# field: lowest and highest value. What "off" means is in the dataclass.
_RANGES: dict[str, tuple[float, float]] = {
    "seed": (-1, 2**64 - 1),
    "min_keep": (0, 2**31 - 1),
    "min_tokens": (0, 2**31 - 1),
    "top_k": (-(2**31), 2**31 - 1),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1),
    "typ_p": (0, 1),
    "temp": (-_ANY, _ANY),
    "dynatemp_range": (0, _ANY),
    "dynatemp_exponent": (0, _ANY),
    "top_n_sigma": (-_ANY, _ANY),
    "penalty_last_n": (-1, 2**31 - 1),
    "penalty_repeat": (1e-6, 10**6),
    "penalty_freq": (-(10**6), 10**6),
    "penalty_present": (-(10**6), 10**6),
    "dry_multiplier": (0, 10**6),
    "dry_base": (1, 10**6),
    "dry_allowed_length": (0, 2**31 - 1),
    "dry_penalty_last_n": (-1, 2**31 - 1),
    "mirostat": (0, 2),
    "mirostat_tau": (0, _ANY),
    "mirostat_eta": (0, 1),
}


@dataclass(frozen=True)
class SamplingParams:
    """How the next token is chosen from the logits. Checked and brought to the types below at construction.

    logit_bias is given as a mapping or as pairs (token id, bias); -inf bans a token; biases of one token add up.
    samplers and dry_sequence_breakers take any sequence of strings; sampler names may be written as llama.cpp's
    command line accepts them. Raises UsageError.
    """

    seed: int = -1  # -1 (or 4294967295, the same as u32): another one each time
    temp: float = 0.8  # 0 or less: greedy
    top_k: int = 40  # 0 or less: off
    top_p: float = 0.95  # 1: off
    min_p: float = 0.05  # 0: off
    typ_p: float = 1.0  # 1: off
    top_n_sigma: float = -1.0  # 0 or less: off
    xtc_probability: float = 0.0  # 0: off
    xtc_threshold: float = 0.1  # above 0.5: off
    dynatemp_range: float = 0.0  # 0: off
    dynatemp_exponent: float = 1.0
    penalty_last_n: int = 64  # tokens that the three penalties look back on; 0: off; -1: all
    penalty_repeat: float = 1.0  # 1: off
    penalty_freq: float = 0.0  # 0: off
    penalty_present: float = 0.0  # 0: off
    dry_multiplier: float = 0.0  # 0: off
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64  # 0: off; -1: all
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    mirostat: int = 0  # 1 or 2: instead of the samplers below, temperature excepted
    mirostat_tau: float = 5.0  # bits
    mirostat_eta: float = 0.1
    min_keep: int = 0  # tokens that top_p, min_p, typ_p and xtc leave at least
    samplers: tuple[str, ...] = DEFAULT_SAMPLERS
    logit_bias: tuple[tuple[int, float], ...] = ()
    ignore_eos: bool = False  # bans the tokens that end a generation
    min_tokens: int = 0  # bans them until this many tokens are generated

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name in _RANGES:
                self._set(field.name, _number(field.name, getattr(self, field.name), field.type is int))
        if not isinstance(self.ignore_eos, bool):
            raise UsageError(f"ignore_eos: expected true or false, found {self.ignore_eos!r}")
        self._set("dry_sequence_breakers", _texts("dry_sequence_breakers", self.dry_sequence_breakers))
        self._set("samplers", canonical_samplers(_texts("samplers", self.samplers)))
        self._set("logit_bias", _biases(self.logit_bias))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> "SamplingParams":
        """The defaults that a model file recommends in its general.sampling.* keys, llama.cpp's where it has none.

        What a user sets goes on top with replace(). Keys that llama.cpp does not read are left alone.
        Raises UsageError naming the key.
        """
        found = {name: metadata[_PREFIX + name] for name in _RECOMMENDED if _PREFIX + name in metadata}
        if (sequence := metadata.get(_PREFIX + "sequence")) is not None:
            found["samplers"] = str(sequence).split(";")
        try:
            return cls(**found)
        except UsageError as error:
            raise UsageError(f"the model file's {_PREFIX}*: {error}") from None


def _number(name: str, value: Any, integer: bool) -> int | float:
    low, high = _RANGES[name]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or (integer and value != int(value)):
        kind = "an integer" if integer else "a number"
        raise UsageError(f"{name}: expected {kind}{_range(low, high)}, found {value!r}")
    return int(value) if integer else float(value)


def _range(low: float, high: float) -> str:
    if high < _ANY:
        return f" from {low} to {high}"
    return f" of at least {low}" if low > -_ANY else ""


def _texts(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UsageError(f"{name}: expected a list of strings, found {values!r}")
    texts = tuple(values)
    for text in texts:
        if not isinstance(text, str):
            raise UsageError(f"{name}: expected a list of strings, found {text!r} in it")
    return texts


def _biases(given: Any) -> tuple[tuple[int, float], ...]:
    total: dict[int, float] = {}
    try:
        for token, bias in given.items() if isinstance(given, Mapping) else given:
            is_id = isinstance(token, int) and not isinstance(token, bool) and token >= 0
            if not is_id or not -math.inf <= bias <= 10**6:
                raise UsageError(f"logit_bias: expected a token id and a bias up to 1e6, found {token!r}: {bias!r}")
            total[token] = total.get(token, 0.0) + float(bias)
    except (TypeError, ValueError):
        raise UsageError(f"logit_bias: expected pairs of token id and bias, found {given!r}") from None
    return tuple(total.items())
