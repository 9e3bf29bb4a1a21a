"""Settings from the environment, and where files live. The only reader of os.environ.

CHENXING_HOME      one folder for everything (models, cache, history) instead of the platform's folders
CHENXING_ISA       instruction set for kernels instead of the best one of this CPU
CHENXING_THREADS   default number of threads
NO_COLOR           as https://no-color.org: no colours in the terminal
HF_* variables are read by huggingface_hub itself.
"""

import os
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
    paths: Paths
    isa: str | None = None
    threads: int | None = None
    no_color: bool = False


def _paths(home: str | None) -> Paths:
    if home:
        root = Path(home).expanduser().absolute()
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


def read_settings(env: dict[str, str]) -> Settings:
    """Settings of one environment. Raises UsageError for values that cannot be meant."""
    return Settings(
        paths=_paths(env.get("CHENXING_HOME")),
        isa=env.get("CHENXING_ISA") or None,
        threads=_threads(env.get("CHENXING_THREADS")),
        no_color=bool(env.get("NO_COLOR")),
    )


@cache
def settings() -> Settings:
    """This process's settings, read once."""
    return read_settings(dict(os.environ))


@cache
def physical_cores() -> int:
    """Physical cores that this process may really use: affinity and, on Linux, the cgroup's CPU quota.

    Logical processors that share a core count once (Linux); elsewhere the logical count is taken.
    """
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    cores = {_core_of(cpu) for cpu in usable}
    return max(1, min(len(cores), _cgroup_quota()))


def _core_of(cpu: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


def _cgroup_quota() -> int:
    """Whole CPUs of the quota in /sys/fs/cgroup/cpu.max ("max 100000" or "200000 100000")."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return 1 << 16
    return 1 << 16 if quota == "max" else max(1, int(quota) // int(period))
