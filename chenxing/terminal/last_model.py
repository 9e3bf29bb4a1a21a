"""Which model was used last, for `chenxing app` without one. A file of one line in the data folder."""

import contextlib
from pathlib import Path

from chenxing.config import settings
from chenxing.errors import ChenxingError

FIRST = "smollm2"


def remember(model: str) -> None:
    """After it was loaded. A folder that cannot be written is no reason to say anything."""
    path = _path()
    name = str(Path(model).absolute()) if Path(model).is_file() else model
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(name + "\n", encoding="utf-8", errors="surrogateescape")


def recall() -> str:
    """The last one, if it is still here; else FIRST."""
    from chenxing.hub import library

    try:
        name = _path().read_text(encoding="utf-8", errors="surrogateescape").strip()
        library.locate(name)
    except (OSError, ValueError, ChenxingError):
        return FIRST
    return name


def _path() -> Path:
    return settings().paths.data / "last-model"
