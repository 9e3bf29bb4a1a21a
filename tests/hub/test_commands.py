import argparse
import hashlib
import json
import re
import sys

import pytest
from tiny_models import write_tiny_gguf

from chenxing.errors import ModelNotFoundError
from chenxing.hub import commands, store
from chenxing.hub.disk import human_bytes
from chenxing.hub.store import ModelFile, PulledModel


@pytest.fixture
def chenxing():
    parser = argparse.ArgumentParser(prog="chenxing")
    commands.add_parsers(parser.add_subparsers(required=True))

    def run(*words):
        args = parser.parse_args(words)
        return args.run(args)

    return run


@pytest.fixture
def tiny(models_folder, tmp_path):
    """A pulled model, its manifest as `pull` leaves it."""
    content = write_tiny_gguf(models_folder / "tiny.gguf", template="[INST]")
    file = ModelFile(models_folder / "tiny.gguf", len(content), hashlib.sha256(content).hexdigest())
    summary = {"architecture": "llama", "quant": "Q8_0", "n_params": 17408, "n_ctx_train": 2048, "licence": "MIT"}
    model = PulledModel(
        "tiny", "pypi:tiny==1.0.0", (file,), models_folder / "tiny.json", None, "2026-01-02T03:04:05+00:00", summary
    )
    store.write_manifest(model)
    return model


def test_list_for_pipes(chenxing, tiny, capsys):
    assert chenxing("list") == 0
    header, row = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert header == ["NAME", "SIZE", "QUANT", "ARCHITECTURE", "CONTEXT", "LICENCE", "PULLED"]
    assert row == ["tiny", human_bytes(tiny.n_bytes), "Q8_0", "llama", "2048", "MIT", "2026-01-02"]


def test_list_of_nothing_and_of_an_interrupted_pull(chenxing, models_folder, capsys):
    chenxing("ls")
    assert capsys.readouterr().out.splitlines() == ["\t".join(commands.report.LIST_HEADER)]
    file = ModelFile(models_folder / "half.gguf", 2000, "ab" * 32)
    store.write_manifest(PulledModel("half", "pypi:half==1", (file,), models_folder / "half.json"))
    file.part.write_bytes(bytes(500))
    chenxing("list")
    assert capsys.readouterr().out.splitlines()[1] == "half\t500 B of 2 kB\t-\t-\t-\t-\tincomplete"
    chenxing("list", "--json")
    assert json.loads(capsys.readouterr().out)[0]["is_complete"] is False


def test_list_as_json(chenxing, tiny, capsys):
    chenxing("list", "--json")
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry == {
        "name": "tiny",
        "path": str(tiny.path),
        "n_bytes": tiny.n_bytes,
        "is_complete": True,
        "source": "pypi:tiny==1.0.0",
        "pulled": "2026-01-02T03:04:05+00:00",
        "architecture": "llama",
        "quant": "Q8_0",
        "n_params": 17408,
        "n_ctx_train": 2048,
        "licence": "MIT",
    }


def test_list_on_a_terminal(chenxing, tiny, monkeypatch, capsys):
    _as_terminal(monkeypatch)
    chenxing("list")
    lines = capsys.readouterr().out.splitlines()
    assert "NAME" in lines[0]
    assert "tiny" in lines[1]
    assert "\t" not in lines[1]
    assert [line.split("(")[0] for line in map(_plain, lines[2:])] == [
        "not pulled: smollm2 ",
        "not pulled: gemma3-270m ",
    ]


def test_show_for_pipes(chenxing, tiny, capsys):
    assert chenxing("show", "tiny") == 0
    lines = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["name"] == "tiny"
    assert lines["title"] == "Tiny"
    assert lines["file"] == str(tiny.path)
    assert lines["parameters"] == "17.4K (17408)"
    assert lines["type F32"] == "65.5 kB, 98.4 %, 1 tensors"
    assert lines["context"] == "2048"
    assert lines["KV heads"] == "2 2 1"
    assert lines["template"] == "yes, mistral"
    assert lines["sampling"] == "temp 0.5"
    assert lines["sha256"] == tiny.files[0].sha256


def test_show_of_a_file_as_json(chenxing, models_folder, tmp_path, capsys):
    write_tiny_gguf(tmp_path / "mine.gguf")
    chenxing("show", "--json", str(tmp_path / "mine.gguf"))
    entry = json.loads(capsys.readouterr().out)
    assert (entry["name"], entry["source"], entry["sha256"], entry["pulled"]) == (None, None, None, None)
    assert entry["paths"] == [str(tmp_path / "mine.gguf")]
    assert entry["types"][0] == {"type": "F32", "n_tensors": 1, "n_params": 16384, "n_bytes": 65536}
    assert (entry["n_head_kv"], entry["templates"], entry["licence"]) == ([2, 2, 1], [], "MIT")


def test_show_on_a_terminal(chenxing, tiny, monkeypatch, capsys):
    _as_terminal(monkeypatch)
    chenxing("show", "tiny")
    lines = list(map(_plain, capsys.readouterr().out.splitlines()))
    assert any(line.split() == ["quant", "Q8_0"] for line in lines)


def test_rm(chenxing, tiny, capsys):
    assert chenxing("rm", "tiny") == 0
    assert capsys.readouterr().out == f"removed tiny, {human_bytes(tiny.n_bytes)} freed\n"
    assert not tiny.path.exists()
    with pytest.raises(ModelNotFoundError):
        chenxing("rm", "tiny")


def test_rm_of_a_borrowed_file_says_where_it_stays(chenxing, models_folder, tmp_path, capsys):
    (tmp_path / "b.gguf").write_bytes(b"x")
    file = ModelFile(tmp_path / "b.gguf", 1, None, is_borrowed=True)
    store.write_manifest(PulledModel("b", "hf:o/b@1", (file,), models_folder / "b.json"))
    chenxing("rm", "b")
    assert str(tmp_path / "b.gguf") in capsys.readouterr().out
    assert (tmp_path / "b.gguf").exists()


@pytest.mark.parametrize("is_terminal", [False, True])
def test_pull(chenxing, tiny, monkeypatch, capsys, is_terminal):
    def pull(spec, on_progress):
        for stage in stages:
            on_progress(stage, 0.5)
        return tiny

    monkeypatch.setattr(commands.library, "pull", pull)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    stages = ["verify", "download"]
    assert chenxing("pull", "tiny") == 0
    out, err = capsys.readouterr()
    assert out == f"pulled tiny ({human_bytes(tiny.n_bytes)}): {tiny.path}\n"
    assert ("download tiny" in _plain(err)) == is_terminal
    stages = ["verify"]
    chenxing("pull", "tiny")
    assert capsys.readouterr().out == f"up to date: tiny ({human_bytes(tiny.n_bytes)}): {tiny.path}\n"


def _as_terminal(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "160")


def _plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
