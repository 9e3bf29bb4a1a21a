"""The sampling flags: llama.cpp's names, the SamplingParams field of each, and how its text is read.

One table serves the command line (`--top-k 20`) and the chat (`/set top_k 20`).
Source: llama.cpp b11434, common/arg.cpp.
"""

import argparse
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from chenxing.errors import UsageError
from chenxing.terminal.escapes import unescape


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


def _sampler_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(";") if name.strip())


def _bias(text: str) -> tuple[int, float]:
    match = re.fullmatch(r"\s*(\d+)\s*([+-])\s*(\d+\.?\d*|\.\d+|inf)\s*", text)
    if not match:
        raise ValueError
    return int(match[1]), float(match[2] + match[3])


@dataclass(frozen=True)
class SamplingFlag:
    """`read` turns a text into the field's value, or into one element of it where `many`; it raises ValueError."""

    field: str
    names: tuple[str, ...]
    read: Callable[[str], Any]
    help: str
    metavar: str = "N"
    expected: str = "a number"
    many: bool = False


SAMPLING_FLAGS = (
    SamplingFlag("seed", ("-s", "--seed"), int, "seed of the random numbers; -1: another one each time (-1)"),
    SamplingFlag("temp", ("--temp", "--temperature"), _real, "temperature; 0: always the likeliest token (0.8)"),
    SamplingFlag("top_k", ("--top-k",), int, "keep the k likeliest tokens; 0: off (40)"),
    SamplingFlag("top_p", ("--top-p",), _real, "keep the likeliest tokens up to this sum; 1: off (0.95)"),
    SamplingFlag("min_p", ("--min-p",), _real, "drop tokens below this share of the likeliest; 0: off (0.05)"),
    SamplingFlag("top_n_sigma", ("--top-nsigma", "--top-n-sigma"), _real, "keep logits near the best; -1: off (-1)"),
    SamplingFlag("typ_p", ("--typical", "--typical-p"), _real, "locally typical sampling; 1: off (1)"),
    SamplingFlag("xtc_probability", ("--xtc-probability",), _real, "chance that XTC drops the top choices; 0: off (0)"),
    SamplingFlag("xtc_threshold", ("--xtc-threshold",), _real, "what is a top choice for XTC; above 0.5: off (0.1)"),
    SamplingFlag("penalty_last_n", ("--repeat-last-n",), int, "tokens that the penalties look back on; 0: off (64)"),
    SamplingFlag("penalty_repeat", ("--repeat-penalty",), _real, "divides the logits of repeated tokens; 1: off (1)"),
    SamplingFlag("penalty_present", ("--presence-penalty",), _real, "subtracted once from repeated tokens; 0: off (0)"),
    SamplingFlag("penalty_freq", ("--frequency-penalty",), _real, "subtracted for each repetition; 0: off (0)"),
    SamplingFlag("dry_multiplier", ("--dry-multiplier",), _real, "strength of the DRY penalty; 0: off (0)"),
    SamplingFlag("dry_base", ("--dry-base",), _real, "base of the DRY penalty (1.75)"),
    SamplingFlag("dry_allowed_length", ("--dry-allowed-length",), int, "longest repetition that DRY lets pass (2)"),
    SamplingFlag("dry_penalty_last_n", ("--dry-penalty-last-n",), int, "tokens that DRY looks back on; 0: off (64)"),
    SamplingFlag(
        "dry_sequence_breakers",
        ("--dry-sequence-breaker",),
        unescape,
        'where DRY starts anew; may be repeated, `none` for none (\\n : " *)',
        metavar="TEXT",
        many=True,
    ),
    SamplingFlag("dynatemp_range", ("--dynatemp-range",), _real, "width of the dynamic temperature; 0: off (0)"),
    SamplingFlag("dynatemp_exponent", ("--dynatemp-exp",), _real, "exponent of the dynamic temperature (1)"),
    SamplingFlag("mirostat", ("--mirostat",), int, "1 or 2: Mirostat instead of the other samplers; 0: off (0)"),
    SamplingFlag("mirostat_eta", ("--mirostat-lr",), _real, "learning rate of Mirostat (0.1)"),
    SamplingFlag("mirostat_tau", ("--mirostat-ent",), _real, "entropy that Mirostat aims at (5)"),
    SamplingFlag(
        "logit_bias",
        ("-l", "--logit-bias"),
        _bias,
        "adds to one token's logit, as in 15043+1 or 15043-inf; may be repeated",
        metavar="ID±BIAS",
        expected="TOKEN_ID+BIAS or TOKEN_ID-BIAS",
        many=True,
    ),
    SamplingFlag(
        "samplers",
        ("--samplers",),
        _sampler_names,
        "the samplers in their order, divided by semicolons",
        metavar="NAMES",
        expected="names divided by semicolons",
    ),
)


def add_sampling_flags(group: argparse._ArgumentGroup) -> None:
    """The flags of the table; an absent one is None, so that the model's own default holds."""
    for flag in SAMPLING_FLAGS:
        action = "append" if flag.many else "store"
        group.add_argument(*flag.names, dest=flag.field, action=action, metavar=flag.metavar, help=_escaped(flag.help))
    group.add_argument("--ignore-eos", action="store_const", const=True, help="go on after the model has ended")


def given_sampling(args: argparse.Namespace) -> dict[str, Any]:
    """SamplingParams fields that the command line sets. Raises UsageError for a value that cannot be meant."""
    from chenxing.sampling import SamplingParams

    given = {
        flag.field: read_flag(flag, texts)
        for flag in SAMPLING_FLAGS
        if (texts := getattr(args, flag.field)) is not None
    }
    given |= {"ignore_eos": True} if args.ignore_eos else {}
    SamplingParams(**given)  # checks the ranges before a model is loaded
    return given


def read_flag(flag: SamplingFlag, given: str | Sequence[str], shown: str | None = None) -> Any:
    """The field's value for the text, or the texts of a `many` flag. `shown` is the name for the error."""
    texts = [given] if isinstance(given, str) else given
    try:
        values = tuple(flag.read(text) for text in texts)
    except ValueError:
        name = shown or max(flag.names, key=len)
        raise UsageError(f"{name}: expected {flag.expected}, found {', '.join(map(repr, texts))}") from None
    if flag.field == "dry_sequence_breakers" and "none" in values:
        return values[values.index("none") + 1 :]
    return values if flag.many else values[0]


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
