"""Folders of compiled kernels, one for each build: source, compiler and what else objects depend on.

A folder's modification time is its last use. An update of the software leaves its old build behind; those age out.
"""

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from chenxing.config import settings

LOCK = "compiling.lock"
_MOST_BUILDS = 4
_OLD_S = 30 * 24 * 3600


@dataclass(frozen=True)
class Build:
    """One folder. isas: of the instruction sets that it has kernels for, how many."""

    path: Path
    isas: dict[str, int]
    n_bytes: int
    last_use: float


def folder() -> Path:
    return settings().paths.cache / "kernels"


def mark_used(build: Path) -> None:
    with contextlib.suppress(OSError):
        os.utime(build)


def remove_old(current: Path) -> None:
    """Keep this build and the last other one; of the rest, those of the last 30 days and four in all.

    A build whose lock is held is being compiled: it stays.
    """
    others = [build for build in builds(current.parent) if build.path != current]
    for place, build in enumerate(others, start=2):
        if place > 2 and (place > _MOST_BUILDS or time.time() - build.last_use > _OLD_S):
            remove(build.path)


def builds(root: Path) -> list[Build]:
    """All builds below the folder, the last used one first."""
    found = []
    with contextlib.suppress(OSError):  # no folder, or gone meanwhile
        for path in root.iterdir():
            objects = [p for p in path.iterdir() if p.name != LOCK] if path.is_dir() else []
            isas: dict[str, int] = {}
            for name in (p.name.split(".")[-2] for p in objects if p.name.endswith(".o")):
                isas[name] = isas.get(name, 0) + 1
            if path.is_dir():
                found.append(Build(path, isas, sum(p.stat().st_size for p in objects), path.stat().st_mtime))
    return sorted(found, key=lambda build: -build.last_use)


def remove(build: Path) -> bool:
    """Remove a build. -> False if it is being compiled, or cannot be removed."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(build / LOCK, timeout=0):
            for path in build.iterdir():
                if path.name != LOCK:
                    path.unlink()
        (build / LOCK).unlink(missing_ok=True)
        build.rmdir()
        return True
    except (Timeout, OSError):
        return False
