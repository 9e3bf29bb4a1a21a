"""Builds of kernels: listed by last use, and old ones age out unless they are being compiled."""

import os
import time
from pathlib import Path

import pytest
from filelock import FileLock

from chenxing.kernels.builds import LOCK, builds, mark_used, remove, remove_old

DAY = 86400.0


def make_build(root: Path, name: str, days_old: float) -> Path:
    path = root / name
    path.mkdir()
    for file in ("linear.avx2.o", "norm.avx2.o", "norm.sse.o", LOCK):
        (path / file).write_bytes(b"object")
    then = time.time() - days_old * DAY
    os.utime(path, (then, then))
    return path


def test_the_list(tmp_path):
    make_build(tmp_path, "old", 3)
    make_build(tmp_path, "new", 1)
    (tmp_path / "a file").write_text("of somebody")
    new, old = builds(tmp_path)
    assert (new.path.name, old.path.name) == ("new", "old")
    assert new.isas == {"avx2": 2, "sse": 1} and new.n_bytes == 18
    mark_used(old.path)
    assert builds(tmp_path)[0].path.name == "old"
    assert builds(tmp_path / "missing") == []


@pytest.mark.parametrize(
    ("ages", "kept"),
    [
        ([100], [100]),  # the last other one stays, however old it is
        ([1, 2, 31], [1, 2]),
        ([40, 50], [40]),
        ([1, 2, 3, 4, 5], [1, 2, 3]),  # with the current one four
    ],
)
def test_old_ones_go(tmp_path, ages, kept):
    current = make_build(tmp_path, "current", 0)
    for days in ages:
        make_build(tmp_path, str(days), days)
    remove_old(current)
    assert {p.name for p in tmp_path.iterdir()} == {"current", *map(str, kept)}


def test_one_that_is_being_compiled_stays(tmp_path):
    path = make_build(tmp_path, "busy", 100)
    with FileLock(path / LOCK):
        assert not remove(path)
        assert len(list(path.iterdir())) == 4
    assert remove(path) and not path.exists()
