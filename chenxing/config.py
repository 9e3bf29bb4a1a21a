"""Settings from the environment, and where files live. The only reader of os.environ.

CHENXING_HOME      one folder for everything (models, cache, history) instead of the platform's folders
CHENXING_ISA       instruction set for kernels instead of the best one of this CPU
CHENXING_THREADS   default number of threads
CHENXING_WEIGHT_CACHE_LIMIT
                   bytes that packed weights may take on disk, as in 20GB; by default a fifth of the disk's room, at
                   most 64 GiB
NO_COLOR           as https://no-color.org: no colours in the terminal
DISPLAY, WAYLAND_DISPLAY
                   set where windows can be opened (Linux)
HF_* variables are read by huggingface_hub itself.
"""

import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from chenxing.errors import UsageError


@dataclass(frozen=True)
class Paths:
    """Folders of this user. Nothing is created here: the owner of a folder makes it when it first writes."""

    models: Path
    cache: Path
    data: Path


@dataclass(frozen=True)
class Settings:
    """home: CHENXING_HOME where it is set."""

    paths: Paths
    home: Path | None = None
    isa: str | None = None
    threads: int | None = None
    weight_cache_limit: int | None = None  # bytes
    no_color: bool = False
    has_desktop: bool = False


def _paths(root: Path | None) -> Paths:
    if root:
        return Paths(root / "models", root / "cache", root / "data")
    from platformdirs import PlatformDirs

    dirs = PlatformDirs("chenxing", appauthor=False)
    return Paths(Path(dirs.user_data_dir) / "models", Path(dirs.user_cache_dir), Path(dirs.user_data_dir))


def _threads(text: str | None) -> int | None:
    if not text:
        return None
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise UsageError(f"CHENXING_THREADS: expected a number from 1 to 1024, found {text!r}")
    return int(text)


def parse_size(name: str, text: str | None) -> int | None:
    """Bytes: a number, perhaps with a decimal unit (kB, MB, GB, TB) or a binary one (KiB, MiB, GiB, TiB).

    None for None and the empty text. Raises UsageError that names `name`.
    """
    if not text:
        return None
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,3})?) ?(?:([kmgt])(i?)b?|b)?", text.strip(), re.IGNORECASE | re.ASCII)
    if not match:
        raise UsageError(f"{name}: expected a size such as 20GB or 512MiB, found {text!r}")
    number, unit, binary = match.groups()
    step = 1024 if binary else 1000
    return int(float(number) * step ** (" kmgt".index(unit.lower()) if unit else 0))


def read_settings(env: dict[str, str]) -> Settings:
    """Settings of one environment. Raises UsageError for values that cannot be meant."""
    home = Path(env["CHENXING_HOME"]).expanduser().absolute() if env.get("CHENXING_HOME") else None
    return Settings(
        paths=_paths(home),
        home=home,
        isa=env.get("CHENXING_ISA") or None,
        threads=_threads(env.get("CHENXING_THREADS")),
        weight_cache_limit=parse_size("CHENXING_WEIGHT_CACHE_LIMIT", env.get("CHENXING_WEIGHT_CACHE_LIMIT")),
        no_color=bool(env.get("NO_COLOR")),
        has_desktop=bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY")),
    )


@cache
def settings() -> Settings:
    """This process's settings, read once."""
    return read_settings(dict(os.environ))
