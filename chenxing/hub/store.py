"""The models folder: one copy of each pulled model, with a small JSON manifest beside it.

    models/smollm2.json, smollm2.gguf                                a built-in model
    models/hf/OWNER/REPO/Q4_K_M.json, NAME-Q4_K_M.gguf               a model from a hub repository

A file that the Hugging Face cache of this user already holds is borrowed from there (the manifest has its absolute
path) and is never deleted by us. A manifest is written before its files, so that an interrupted download has a name:
a model is complete when every file has its size. A manifest that cannot be read counts as absent.
"""

import contextlib
import datetime
import glob
import json
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chenxing.config import settings
from chenxing.errors import DownloadError

_FORMAT = 1

_log = logging.getLogger("chenxing.hub")


@dataclass(frozen=True)
class ModelFile:
    """One file of a pulled model. sha256 is None where the source gives none and the file is not there yet."""

    path: Path
    size: int
    sha256: str | None
    is_borrowed: bool = False

    @property
    def part(self) -> Path:
        """Where the file grows while it is downloaded; the content that it is to get is in its name."""
        return self.path.with_name(f"{self.path.name}.{(self.sha256 or 'unknown')[:12]}.part")

    @property
    def scratch(self) -> Path:
        """A folder for what the file is taken out of."""
        return self.path.with_name(f"{self.path.name}.scratch")

    @property
    def is_there(self) -> bool:
        return _size(self.path) == self.size

    def parts(self) -> list[Path]:
        """All parts on disk, those of other contents too (a download that was interrupted before the hub's changed)."""
        return list(self.path.parent.glob(f"{glob.escape(self.path.name)}.*.part"))


@dataclass(frozen=True)
class PulledModel:
    """A manifest. `summary` holds what `list` shows of the GGUF itself; None until the file has been read."""

    name: str
    source: str
    files: tuple[ModelFile, ...]
    manifest: Path
    licence: str | None = None
    pulled: str | None = None
    summary: dict[str, Any] | None = field(default=None, compare=False)

    @property
    def path(self) -> Path:
        """The file to open: the only one, or the first shard."""
        return self.files[0].path

    @property
    def n_bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def n_bytes_there(self) -> int:
        """Bytes on disk, parts of an interrupted download included."""
        return sum(file.size if file.is_there else _size(file.part) or 0 for file in self.files)

    @property
    def is_complete(self) -> bool:
        return all(file.is_there for file in self.files)


def models_folder() -> Path:
    return settings().paths.models


def pulled_models() -> list[PulledModel]:
    """All models of this user in order of name, interrupted downloads included."""
    folder = models_folder()
    manifests = [*folder.glob("*.json"), *folder.glob("hf/*/*/*.json")]
    models = [model for path in manifests if (model := read_manifest(path))]
    return sorted(models, key=lambda model: model.name.casefold())


def read_manifest(path: Path) -> PulledModel | None:
    """The model of one manifest, or None if there is none or it does not make sense."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT or not data["files"]:
            return None
        files = tuple(
            ModelFile(
                path.parent / entry["file"], int(entry["size"]), entry["sha256"], Path(entry["file"]).is_absolute()
            )
            for entry in data["files"]
        )
        return PulledModel(
            str(data["name"]), str(data["source"]), files, path, data["licence"], data["pulled"], data["summary"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_manifest(model: PulledModel) -> None:
    """Writes the manifest in one step: a reader sees the old one or the new one."""
    base = model.manifest.parent
    base.mkdir(parents=True, exist_ok=True)
    data = {
        "format": _FORMAT,
        "name": model.name,
        "source": model.source,
        "licence": model.licence,
        "pulled": model.pulled,
        "files": [
            {
                "file": str(file.path) if file.is_borrowed else file.path.relative_to(base).as_posix(),
                "size": file.size,
                "sha256": file.sha256,
            }
            for file in model.files
        ],
        "summary": model.summary,
    }
    scratch = model.manifest.with_suffix(".json.part")
    scratch.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(scratch, model.manifest)


def delete(model: PulledModel) -> int:
    """Removes a model's files, parts and manifest, and the folders that this leaves empty; returns the bytes freed."""
    owned = [file for file in model.files if not file.is_borrowed]
    freed = 0
    for path in [path for file in owned for path in (file.path, *file.parts())]:
        freed += _size(path) or 0
        path.unlink(missing_ok=True)
    for file in owned:
        shutil.rmtree(file.scratch, ignore_errors=True)
    model.manifest.unlink(missing_ok=True)
    root = models_folder()
    folders = {folder for path in (model.manifest, *(file.path for file in owned)) for folder in path.parents}
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        if root in folder.parents:
            with contextlib.suppress(OSError):  # not empty: other models are there
                folder.rmdir()
    return freed


@contextlib.contextmanager
def locked(manifest: Path) -> Iterator[None]:
    """One process at a time pulls or removes the model of `manifest`; others wait here."""
    from filelock import FileLock, Timeout

    root = models_folder()
    name = "-".join(manifest.relative_to(root).with_suffix("").parts)
    folder = root / ".locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / f"{name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            _log.warning("another chenxing is pulling or removing %s: waiting for it", manifest.stem)
            lock.acquire()
    except OSError as error:
        raise DownloadError(
            f"cannot write the models folder {root}: {error.strerror}. Set CHENXING_HOME to a folder of yours"
        ) from error
    try:
        yield
    finally:
        lock.release()


def finish(model: PulledModel, sha256: list[str]) -> PulledModel:
    """Writes the manifest of a model whose files are all there, with their checksums as computed.

    The date stays that of the first pull of this content. What an earlier version of the model had under other file
    names goes.
    """
    files = tuple(replace(file, sha256=digest) for file, digest in zip(model.files, sha256, strict=True))
    earlier = read_manifest(model.manifest)
    is_same = earlier is not None and [file.sha256 for file in earlier.files] == sha256
    date = earlier.pulled if earlier and is_same else None
    date = date or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    model = replace(model, files=files, pulled=date)
    write_manifest(model)
    kept = {file.path for file in files}
    for file in earlier.files if earlier else ():
        if not file.is_borrowed and file.path not in kept:
            file.path.unlink(missing_ok=True)
    for path in [part for file in files if not file.is_borrowed for part in file.parts()]:
        path.unlink(missing_ok=True)
    return model


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None
