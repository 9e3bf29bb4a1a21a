"""The model that was used last: kept in the data folder, and forgotten when it is gone."""

from pathlib import Path

import pytest

from chenxing import config
from chenxing.terminal import last_model


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CHENXING_HOME", str(tmp_path / "home"))
    config.settings.cache_clear()
    yield tmp_path / "home"
    config.settings.cache_clear()


def test_at_first_the_built_in_one():
    assert last_model.recall() == "smollm2"


def test_a_file_is_found_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "晨 星.gguf").write_bytes(b"GGUF")
    monkeypatch.chdir(tmp_path)
    last_model.remember("晨 星.gguf")
    monkeypatch.chdir("/")
    assert last_model.recall() == str(tmp_path / "晨 星.gguf")
    (tmp_path / "晨 星.gguf").unlink()
    assert last_model.recall() == "smollm2"


def test_a_name_that_is_not_pulled_is_forgotten(home):
    last_model.remember("hf:owner/repo:Q4_K_M")
    assert (home / "data/last-model").read_text() == "hf:owner/repo:Q4_K_M\n"
    assert last_model.recall() == "smollm2"


def test_a_folder_that_cannot_be_written_is_done_without(home):
    home.write_text("a file where the folder should be")
    last_model.remember("smollm2")
    assert last_model.recall() == "smollm2"
