"""Models split over several files, named NAME-00001-of-0000N.gguf, as llama.cpp's gguf-split writes them.

Source  llama.cpp tools/gguf-split and src/llama.cpp (llama_split_path): the pattern and the split.* keys.
"""

import re
from pathlib import Path
from typing import Any

from chenxing.errors import ModelFileError
from chenxing.gguf.files import listed
from chenxing.gguf.metadata import required, typed

_SHARD_NAME = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")


def shard_paths(path: Path, metadata: dict[str, Any]) -> list[Path]:
    """All files of the model that `path` belongs to, in order; just `path` if it is whole.

    Raises ModelFileError naming missing files, or for a name that contradicts the metadata.
    """
    n = typed(path, metadata, "split.count", int)
    if n is None or n <= 1:
        return [path]
    name = _SHARD_NAME.fullmatch(path.name)
    no = required(path, metadata, "split.no", int)
    if name is None or (int(name[2]), int(name[3])) != (no + 1, n):
        expected = f"a name that ends with -{no + 1:05d}-of-{n:05d}.gguf, as its split.no and split.count say"
        raise ModelFileError(path, "file name", expected, path.name, "Rename it as it was, so that its parts are found")
    paths = [path.with_name(f"{name[1]}-{i + 1:05d}-of-{n:05d}.gguf") for i in range(n)]
    missing = [p.name for p in paths if not p.exists()]
    if missing:
        hint = "Fetch them into the same folder"
        raise ModelFileError(path, "split model", f"{n} files side by side", f"no {listed(missing)}", hint)
    return paths


def check_shard(path: Path, metadata: dict[str, Any], no: int, n: int) -> None:
    """Check that the metadata of file `no` (from 0) of `n` says so too. Raises ModelFileError."""
    for key, expected in (("split.no", no), ("split.count", n)):
        found = required(path, metadata, key, int)
        if found != expected:
            hint = "The files are not of one model: fetch them again"
            raise ModelFileError(path, f"metadata key '{key}'", str(expected), str(found), hint)
