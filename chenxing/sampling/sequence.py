"""The order of the samplers, and their names. Source: llama.cpp b11434, common/sampling.cpp."""

from collections.abc import Iterable

from chenxing.errors import UsageError

DEFAULT_SAMPLERS = "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"

_ALL = (*DEFAULT_SAMPLERS, "infill")
_ALIASES = {name.replace("_", mark): name for name in _ALL for mark in ("_", "-", "")}
_ALIASES |= {"nucleus": "top_p", "temp": "temperature", "typ": "typ_p"}


def canonical_samplers(names: Iterable[str]) -> tuple[str, ...]:
    """The names as in DEFAULT_SAMPLERS, for any spelling that llama.cpp accepts: "top-k", "TopK", "temp", ...

    Empty names are left out. Raises UsageError for an unknown one; llama.cpp would drop it with a warning.
    """
    return tuple(_canonical(name) for name in names if name.strip())


def _canonical(name: str) -> str:
    known = _ALIASES.get(name.strip().lower())
    if known is None:
        raise UsageError(f"samplers: expected names among {', '.join(_ALL)}, found {name!r}")
    return known
