"""A bad file under the cache folder is a miss: never a wrong token, never an exception."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from chenxing.tokenizer.cache import cached

TEXT = "The morning star's 12345 清晨 🌟"


@pytest.fixture
def cache_home(tmp_path: Path) -> Path:
    """Empty for each test."""
    return tmp_path


def _only_file(folder: Path) -> Path:
    (file,) = (folder / "tokenizers").iterdir()
    return file


@pytest.mark.parametrize("name", ["bpe", "spm", "ugm", "wpm"])
def test_second_start_builds_nothing(name: str, load, cache_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = load(name).encode(TEXT)
    monkeypatch.setattr("chenxing.tokenizer.load._build", lambda *_: pytest.fail("built again"))
    assert load(name).encode(TEXT) == ids


def test_damaged_files_are_built_anew(load, cache_home: Path) -> None:
    ids = load("bpe").encode(TEXT)
    file = _only_file(cache_home)
    sound = file.read_bytes()
    rng = random.Random(1)
    damaged = [b"", b"x", sound[:40], sound[:-1], sound + b"\0", sound[: len(sound) // 2], bytes(len(sound))]
    for _ in range(40):
        place = rng.randrange(len(sound))
        damaged.append(sound[:place] + bytes([sound[place] ^ 1 << rng.randrange(8)]) + sound[place + 1 :])
    for content in damaged:
        file.write_bytes(content)
        assert load("bpe").encode(TEXT) == ids
        assert file.read_bytes() == sound


def test_a_file_of_another_vocabulary_is_not_believed(load, cache_home: Path) -> None:
    load("wpm")
    foreign = _only_file(cache_home)
    content = foreign.read_bytes()
    foreign.unlink()
    ids = load("bpe").encode(TEXT)
    _only_file(cache_home).write_bytes(content)
    assert load("bpe").encode(TEXT) == ids


def test_a_folder_that_cannot_be_written_costs_nothing_but_time(load, cache_home: Path) -> None:
    (cache_home / "tokenizers").write_text("a file where the folder should be")
    golden = json.loads((Path(__file__).parents[1] / "data/tokenizer/golden_bpe.json").read_text())
    assert load("bpe").encode("star") in golden["plain"]


def test_no_temporary_files_stay(load, cache_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: Path) -> None:
        raise PermissionError("in use")

    monkeypatch.setattr("os.replace", refuse)
    load("bpe")
    assert list((cache_home / "tokenizers").iterdir()) == []


def test_keys_tell_vocabularies_apart(cache_home: Path) -> None:
    built = [cached(bytes([key] * 16), lambda key=key: {"a": np.array([key], np.uint32)})["a"][0] for key in (1, 2, 1)]
    assert built == [1, 2, 1]
