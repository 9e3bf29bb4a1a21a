"""What the cache folder holds, by section: each can be shown and cleared alone. All of it can be made again."""

import contextlib
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chenxing.config import settings
from chenxing.errors import ChenxingError, UsageError

if TYPE_CHECKING:
    from chenxing.kvcache import StoreInfo


@dataclass(frozen=True)
class Entry:
    """A line of the table. last_use: seconds since 1970. more: figures for programs."""

    name: str
    n_bytes: int
    last_use: float
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """name    as in `chenxing cache clear NAME`, and of its folder in the cache folder
    what    in words
    entries  what is in it, the last used first
    remove   all that can be removed -> bytes freed, files left because they are in use
    """

    name: str
    what: str
    entries: Callable[[Path], list[Entry]]
    remove: Callable[[Path], tuple[int, int]]

    @property
    def folder(self) -> Path:
        return settings().paths.cache / self.name

    def show(self) -> list[Entry]:
        return self.entries(self.folder)

    def clear(self) -> tuple[int, int]:
        return self.remove(self.folder)


def _remove_files(folder: Path) -> tuple[int, int]:
    freed = left = 0
    for path in [p for p in folder.rglob("*") if p.is_file() and not p.is_symlink()]:
        with contextlib.suppress(FileNotFoundError):
            n_bytes = path.stat().st_size
            try:
                path.unlink()
                freed += n_bytes
            except PermissionError:
                left += 1
    if not left:
        shutil.rmtree(folder, ignore_errors=True)
    return freed, left


def kv_stores(folder: Path, models: Iterable[str] = ()) -> "list[StoreInfo]":
    """The stores of these models, by the name of a file with or without .gguf, or of a pulled one; all without names.

    Raises UsageError for a model that has none.
    """
    from chenxing.kvcache import list_stores

    stores = list_stores(folder)
    found = []
    for model in models:
        names = _file_names(model)
        of_model = [store for store in stores if store.name in names]
        if not of_model:
            known = ", ".join(sorted({store.name for store in stores})) or "none"
            raise UsageError(f"{model}: no prompts of this model are kept on disk; there are those of: {known}")
        found += of_model
    return found if models else stores


def _file_names(model: str) -> set[str]:
    from chenxing.hub.library import locate

    name = Path(model).name
    names = {name, f"{name}.gguf"}
    with contextlib.suppress(ChenxingError):
        names.add(locate(model)[0].name)
    return names


def remove_kv(stores: "Iterable[StoreInfo]") -> tuple[int, int]:
    """-> bytes freed, stores left because a process writes them."""
    from chenxing.kvcache import clear_store

    freed = [clear_store(store.folder) for store in stores]
    return sum(n for n in freed if n is not None), freed.count(None)


def _remove_all_kv(folder: Path) -> tuple[int, int]:
    freed, left = remove_kv(kv_stores(folder))
    if not left:  # what is there besides is no sound store
        freed += _remove_files(folder)[0]
    return freed, left


def _kv(folder: Path) -> list[Entry]:
    return [_kv_entry(store) for store in kv_stores(folder)]


def _kv_entry(store: "StoreInfo") -> Entry:
    in_use = " (in use)" if store.is_in_use else ""
    uses = f"{store.n_requests} request{'s' * (store.n_requests != 1)} reused {store.n_reused}"
    words = f"{store.name} {store.fingerprint.get('kv_type', '')}{in_use}: {store.n_tokens} tokens, {uses}"
    more = {"tokens": store.n_tokens, "requests": store.n_requests, "tokens_reused": store.n_reused}
    return Entry(words, store.n_bytes, store.modified, more | {"in_use": store.is_in_use, "folder": str(store.folder)})


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
    Section("kv", "prompts and answers", _kv, _remove_all_kv),
    Section("weights", "packed weights of models", _weights, _remove_files),
    Section("kernels", "compiled kernels", _kernels, _remove_files),
    Section("tokenizers", "tables of vocabularies", _files, _remove_files),
    Section("templates", "analysed chat templates", _files, _remove_files),
    Section("turns", "spellings of answers, dates of conversations", _files, _remove_files),
]


def sections(names: Iterable[str]) -> list[Section]:
    """Those of these names; all for "all"."""
    wanted = set(names)
    return [section for section in SECTIONS if "all" in wanted or section.name in wanted]
