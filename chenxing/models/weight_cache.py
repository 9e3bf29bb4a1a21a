"""Where packed weights are kept: a folder of bounded size, from which the least recently used models go first.

A file's modification time is its last use. Files are never changed in place, only renamed into place and removed;
what another process has mapped stays whole for it (on Windows such a file cannot be removed, and stays).
"""

import contextlib
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

from chenxing.config import settings
from chenxing.gguf import GGUF
from chenxing.kernels.memory import aligned
from chenxing.models.packed_file import (
    TEMPORARY,
    Progress,
    map_packed,
    model_key,
    read_index,
    unpacked_digests,
    weights_identity,
    write_packed,
)
from chenxing.models.packed_stream import Places, lay_out, packed_pieces
from chenxing.models.spec import TensorSpec

_MOST_BYTES = 64 << 30
_SHARE = 5  # of the disk's room, what is used and what is free, a fifth
_ABANDONED_S = 3600


@dataclass(frozen=True)
class Packed:
    """Packed tensors: views of one mapping or one array.

    identity  of all the model's weights: equal for equal ones, wherever they are from
    origin    where they are from, in words
    """

    data: np.ndarray
    places: Places
    identity: str
    origin: str

    def array(self, name: str) -> np.ndarray:
        """The tensor's packed bytes, u8 flat; its address is a multiple of 64."""
        offset, n_bytes = self.places[name]
        return self.data[offset : offset + n_bytes]

    @property
    def n_bytes(self) -> int:
        return sum(n for _, n in self.places.values())


@dataclass(frozen=True)
class CachedModel:
    """A file of the folder. model: the GGUF file that it was made from; None if the file does not say so."""

    path: Path
    model: Path | None
    n_bytes: int
    last_use: float


def folder() -> Path:
    return settings().paths.cache / "weights"


def open_packed(
    model: GGUF, specs: Sequence[TensorSpec], on_progress: Progress | None = None, *, use_cache: bool = True
) -> Packed:
    """The packed tensors of a model: mapped if the cache has them, else packed, into the cache if it can take them.

    use_cache: False packs them into memory of this process.
    """
    report = on_progress or (lambda stage, fraction: None)
    if not use_cache:
        return _pack_in_memory(model, specs, report, "the cache of weights is off")
    key = model_key(model, specs)
    path = folder() / f"{key}.pack"
    found = _found(path, key, model, specs, "mapped from the cache")
    if found is not None:
        return found
    try:
        return _pack_into(path, key, model, specs, report)
    except OSError as error:  # unwritable or full
        return _pack_in_memory(model, specs, report, f"the cache cannot be written: {error.strerror or error}")


def _found(path: Path, key: str, model: GGUF, specs: Sequence[TensorSpec], origin: str) -> Packed | None:
    mapped = map_packed(path, key, partly_read=any(spec.int8 for spec in specs))
    if mapped is None:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    data, places, digests = mapped
    return Packed(data, places, weights_identity(model, digests), origin)


def _pack_into(path: Path, key: str, model: GGUF, specs: Sequence[TensorSpec], report: Progress) -> Packed:
    """One model at a time on this machine: who waited may find what it wants. Raises OSError."""
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with FileLock(path.parent / "packing.lock"):
        found = _found(path, key, model, specs, "mapped from the cache")
        if found is not None:
            return found
        n_bytes = lay_out(model, specs)[1]
        if not make_room(path.parent, n_bytes, model.path):
            reason = f"{n_bytes / 1e9:.1f} GB are more than the cache of weights may take"
            return _pack_in_memory(model, specs, report, reason)
        write_packed(path, key, model, specs, report)
        found = _found(path, key, model, specs, "packed into the cache, mapped")
        return found or _pack_in_memory(model, specs, report, "the file in the cache could not be read back")


def _pack_in_memory(model: GGUF, specs: Sequence[TensorSpec], report: Progress, reason: str) -> Packed:
    places, n_bytes = lay_out(model, specs)
    data = aligned(n_bytes)
    ends = {name: offset for name, (offset, _) in places.items()}
    hashes = {name: xxhash.xxh3_64() for name in places}
    for name, piece in packed_pieces(model, specs):
        data[ends[name] : ends[name] + len(piece)] = piece
        hashes[name].update(piece.data)
        ends[name] += len(piece)
        report("pack weights", ends[name] / n_bytes)
    digests = {name: h.hexdigest() for name, h in hashes.items()} | unpacked_digests(model, specs)
    return Packed(data, places, weights_identity(model, digests), f"packed in memory: {reason}")


def make_room(folder: Path, n_bytes: int, model: Path) -> bool:
    """Remove what must go before n_bytes for this model are added. -> whether they fit.

    Gone at once: what an interrupted start left behind, and what was made from the same file when that, or the code,
    was another. Then, until the limit holds: damaged files and those whose model is gone, then the least recently used.
    """
    _remove_abandoned(folder)
    files = []
    for file in cached_models(folder):
        if file.model == model.absolute():
            _remove(file.path)
        else:
            files.append(file)
    used = sum(file.n_bytes for file in files)
    limit = limit_bytes(folder, used)
    if n_bytes > limit:
        return False
    for file in sorted(files, key=lambda f: (f.model is not None and f.model.exists(), f.last_use)):
        if used + n_bytes <= limit:
            break
        used -= file.n_bytes if _remove(file.path) else 0
    return used + n_bytes <= limit


def limit_bytes(folder: Path, used: int) -> int:
    """Bytes that the folder may take; `used` of them are taken."""
    chosen = settings().weight_cache_limit
    return min(_MOST_BYTES, (shutil.disk_usage(folder).free + used) // _SHARE) if chosen is None else chosen


def cached_models(folder: Path) -> list[CachedModel]:
    """The packed files of a folder, the last used one first."""
    models = []
    for path in folder.glob("*.pack"):
        with contextlib.suppress(OSError):  # gone meanwhile
            stat, index = path.stat(), read_index(path)
            models.append(CachedModel(path, Path(index.model) if index else None, stat.st_size, stat.st_mtime))
    return sorted(models, key=lambda m: -m.last_use)


def _remove_abandoned(folder: Path) -> None:
    """Temporary files that nobody has written to for an hour."""
    for path in folder.glob(f"*{TEMPORARY}"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_S:
                _remove(path)


def _remove(path: Path) -> bool:
    try:
        path.unlink(missing_ok=True)
        return True
    except OSError:  # in use, on Windows
        return False
