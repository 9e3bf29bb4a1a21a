import sys
from pathlib import Path

import pytest

from chenxing.errors import ModelNotFoundError, UsageError
from chenxing.hub.names import HubModel, LocalFile, ModelName, nearest, parse


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("spec", "repo", "selector"),
    [
        ("hf:owner/repo", "owner/repo", None),
        ("HF:owner/repo:q4_k_m", "owner/repo", "q4_k_m"),
        ("hf://owner/repo:Q8_0", "owner/repo", "Q8_0"),
        ("hf:owner/repo:folder/a-Q8_0.gguf", "owner/repo", "folder/a-Q8_0.gguf"),
        ("hf:owner/repo:latest", "owner/repo", None),
        ("hf.co/owner/Repo.v2-GGUF:IQ4_XS", "owner/Repo.v2-GGUF", "IQ4_XS"),
        ("https://huggingface.co/owner/repo", "owner/repo", None),
        ("https://huggingface.co/owner/repo/blob/main/sub/a.gguf", "owner/repo", "sub/a.gguf"),
        ("https://huggingface.co/owner/repo/resolve/main/a.gguf?download=true", "owner/repo", "a.gguf"),
        ("owner/repo:Q4_K_M", "owner/repo", "Q4_K_M"),
        ("owner/repo-GGUF", "owner/repo-GGUF", None),
        ("owner/repo:a-Q4_0.gguf", "owner/repo", "a-Q4_0.gguf"),
    ],
)
def test_hub_specs(spec, repo, selector):
    assert parse(spec) == HubModel(repo, selector)


@pytest.mark.parametrize("spec", ["hf:", "hf:repo", "hf:a/b/c", "hf:../repo", "https://huggingface.co/owner", "", "  "])
def test_specs_that_cannot_be_meant(spec):
    with pytest.raises(UsageError):
        parse(spec)


@pytest.mark.parametrize("word", ["smollm2", "llama3:8b", "gemma3-270m", "repo-GGUF"])
def test_words_are_names(word):
    assert parse(word) == ModelName(word)


def test_a_file_wins_over_a_name_and_over_a_repository(tmp_path):
    (tmp_path / "smollm2").write_bytes(b"x")
    (tmp_path / "owner").mkdir()
    (tmp_path / "owner" / "repo-GGUF").write_bytes(b"x")
    assert parse("smollm2") == LocalFile(Path("smollm2"))
    assert parse("owner/repo-GGUF") == LocalFile(Path("owner/repo-GGUF"))
    with pytest.raises(ModelNotFoundError, match="hf:owner/other:Q8_0"):  # a folder `owner` makes it a path
        parse("owner/other:Q8_0")


def test_a_folder_does_not_hide_a_name_but_is_found_by_its_path(tmp_path):
    (tmp_path / "smollm2").mkdir()
    assert parse("smollm2") == ModelName("smollm2")
    assert parse(str(tmp_path / "smollm2")) == LocalFile(tmp_path / "smollm2")


def test_a_later_shard_stands_for_the_first(tmp_path):
    first, second = (tmp_path / f"m-0000{number}-of-00002.gguf" for number in (1, 2))
    second.write_bytes(b"x")
    assert parse(str(second)) == LocalFile(second)  # the first is missing: who opens it says so
    first.write_bytes(b"x")
    assert parse(str(second)) == LocalFile(first)
    assert parse(second) == LocalFile(first)


def test_a_missing_path_names_what_lies_near(tmp_path):
    (tmp_path / "SmolLM2-135M-Q4_1.gguf").write_bytes(b"x")
    with pytest.raises(
        ModelNotFoundError, match=r"smollm2-135m-q4_0\.gguf: no such file; did you mean SmolLM2-135M-Q4_1"
    ):
        parse("smollm2-135m-q4_0.gguf")
    with pytest.raises(ModelNotFoundError, match="no file of a similar name"):
        parse("./zzz.gguf")
    with pytest.raises(ModelNotFoundError, match="there is no folder"):
        parse("nowhere/at/all.gguf")
    with pytest.raises(ModelNotFoundError, match="write hf:owner/repo"):
        parse("owner/repo")


def test_a_path_object_is_never_a_name():
    with pytest.raises(ModelNotFoundError):
        parse(Path("smollm2"))


def test_nearest_ignores_case_and_keeps_spelling():
    assert nearest("SMOLM2", ["smollm2", "Gemma3-270M"]) == ["smollm2"]
    assert nearest("gemma-270m", ["smollm2", "Gemma3-270M"]) == ["Gemma3-270M"]
    assert nearest("xyz", ["smollm2"]) == []


def test_addresses_of_others_are_refused():
    for text in ("http://example.com/model.gguf", "ftp://x/y", "file:///model.gguf"):
        with pytest.raises(UsageError, match="only Hugging Face's addresses"):
            parse(text)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_a_link_to_nowhere_is_named_and_never_suggested(tmp_path):
    (tmp_path / "model.gguf").symlink_to("gone.gguf")
    with pytest.raises(
        ModelNotFoundError, match=r"model\.gguf: no such file; it is a link to gone\.gguf, which is missing"
    ):
        parse(str(tmp_path / "model.gguf"))
    with pytest.raises(ModelNotFoundError, match="no file of a similar name"):
        parse(str(tmp_path / "models.gguf"))


@pytest.mark.skipif(sys.platform == "win32", reason="there a folder that somebody stands in cannot be removed")
def test_in_a_folder_that_is_gone(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(ModelNotFoundError, match="the current folder, which is gone"):
        parse("model.gguf")
