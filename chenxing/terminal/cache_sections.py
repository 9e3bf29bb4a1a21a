"""What the cache folder holds, by section: each can be shown and cleared alone. All of it can be made again."""

import contextlib
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from chenxing.config import settings


@dataclass(frozen=True)
class Entry:
    """A line of the table. last_use: seconds since 1970."""

    name: str
    n_bytes: int
    last_use: float


@dataclass(frozen=True)
class Section:
    """name    as in `chenxing cache clear NAME`, and of its folder in the cache folder
    what    in words
    entries  what is in it, the last used first
    """

    name: str
    what: str
    entries: Callable[[Path], list[Entry]]

    @property
    def folder(self) -> Path:
        return settings().paths.cache / self.name

    def show(self) -> list[Entry]:
        return self.entries(self.folder)

    def clear(self) -> tuple[int, int]:
        """Remove all that can be removed. -> bytes freed, files left because they are in use."""
        freed = left = 0
        for path in [p for p in self.folder.rglob("*") if p.is_file() and not p.is_symlink()]:
            with contextlib.suppress(FileNotFoundError):
                n_bytes = path.stat().st_size
                try:
                    path.unlink()
                    freed += n_bytes
                except PermissionError:
                    left += 1
        if not left:
            shutil.rmtree(self.folder, ignore_errors=True)
        return freed, left


def _weights(folder: Path) -> list[Entry]:
    from chenxing.models.weight_cache import cached_models

    return [Entry(_model_name(m.model), m.n_bytes, m.last_use) for m in cached_models(folder)]


def _model_name(model: Path | None) -> str:
    if model is None:
        return "damaged or of another version"
    return model.name if model.exists() else f"{model.name} (the model is gone)"


def _kernels(folder: Path) -> list[Entry]:
    from chenxing.kernels.builds import builds
    from chenxing.kernels.library import build_id

    entries = []
    for build in builds(folder):
        counts = ", ".join(f"{n} for {isa}" for isa, n in sorted(build.isas.items())) or "empty"
        current = " (current)" if build.path.name == build_id() else ""
        entries.append(Entry(f"build {build.path.name[:8]}{current}: {counts}", build.n_bytes, build.last_use))
    return entries


def _files(folder: Path) -> list[Entry]:
    """All files as one entry."""
    stats = []
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file():
                stats.append(path.stat())
    if not stats:
        return []
    n_files = f"{len(stats)} file{'s' * (len(stats) != 1)}"
    return [Entry(n_files, sum(s.st_size for s in stats), max(s.st_mtime for s in stats))]


SECTIONS = [
    Section("weights", "packed weights of models", _weights),
    Section("kernels", "compiled kernels", _kernels),
    Section("tokenizers", "tables of vocabularies", _files),
    Section("templates", "analysed chat templates", _files),
    Section("turns", "spellings of answers, dates of conversations", _files),
]


def sections(names: Iterable[str]) -> list[Section]:
    """Those of these names; all for "all"."""
    wanted = set(names)
    return [section for section in SECTIONS if "all" in wanted or section.name in wanted]
