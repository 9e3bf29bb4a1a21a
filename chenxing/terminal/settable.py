"""What `/set` shows and changes: the sampling flags and the length of an answer."""

from dataclasses import replace

from chenxing.errors import UsageError
from chenxing.terminal.parser import did_you_mean
from chenxing.terminal.sampling_flags import SAMPLING_FLAGS, SamplingFlag, read_flag
from chenxing.terminal.session import Options

_LENGTH_NAMES = ("n_predict", "predict", "n", "max_tokens")


def change(options: Options, name: str, value: str) -> str:
    """Sets `name` to `value` and says so; an empty value only shows it.

    Names are those of the flags, with or without their dashes, and of the SamplingParams fields.
    Raises UsageError for an unknown name, with the nearest known ones, or a value that cannot be meant.
    """
    key = _key(name)
    if key in _LENGTH_NAMES:
        if value:
            options.max_tokens = read_length(value, name)
        return f"n_predict is {_length(options)}"
    flag = _flags_by_name().get(key)
    if flag is None:
        known = ["n_predict", *_flags_by_name()]
        raise UsageError(f"/set {name}: unknown setting{did_you_mean(key, known)} (/set lists the settings)")
    if value:
        texts = value.split() if flag.many else value
        options.params = replace(options.params, **{flag.field: read_flag(flag, texts, f"/set {name}")})
    return f"{flag.field} is {_shown(getattr(options.params, flag.field))}"


def current_values(options: Options) -> str:
    """All settings, one a line."""
    rows = [("n_predict", _length(options))]
    rows += [(flag.field, _shown(getattr(options.params, flag.field))) for flag in SAMPLING_FLAGS]
    width = max(len(name) for name, _ in rows) + 2
    return "\n".join(f"{name:{width}}{value}" for name, value in rows)


def read_length(text: str, name: str) -> int | None:
    """Tokens of an answer at most; None for llama.cpp's -1 (no limit) and -2 (until the context is full)."""
    try:
        n = int(text)
    except ValueError:
        n = -3
    if n < -2:
        raise UsageError(f"{name}: expected a number of tokens, or -1 for no limit, found {text!r}")
    return n if n >= 0 else None


def _flags_by_name() -> dict[str, SamplingFlag]:
    by_field = {flag.field: flag for flag in SAMPLING_FLAGS}
    return by_field | {_key(name): flag for flag in SAMPLING_FLAGS for name in flag.names}


def _key(name: str) -> str:
    return name.lstrip("-").replace("-", "_").lower()


def _length(options: Options) -> str:
    return "-1" if options.max_tokens is None else str(options.max_tokens)


def _shown(value: object) -> str:
    if isinstance(value, tuple | list):
        return " ".join(repr(element).strip("'") for element in value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
