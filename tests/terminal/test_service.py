"""`chenxing service print`: what the files say, and that their words are `serve`'s."""

import plistlib
import sys
from pathlib import Path

import pytest

from chenxing import cli, config
from chenxing.terminal.service import systemd_unit


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CHENXING_HOME", str(tmp_path / "my home"))
    config.settings.cache_clear()
    yield
    config.settings.cache_clear()


def printed(capsys, *words: str) -> str:
    assert cli.main(["service", "print", *words]) == 0
    return capsys.readouterr().out


def test_launchd(capsys, tmp_path, monkeypatch):
    (tmp_path / "晨 星.gguf").touch()
    monkeypatch.chdir(tmp_path)
    agent = plistlib.loads(printed(capsys, "--system", "launchd", "--", "晨 星.gguf", "--port", "8081").encode())
    model = str(tmp_path / "晨 星.gguf")
    assert agent["ProgramArguments"] == [sys.executable, "-P", "-m", "chenxing", "serve", model, "--port", "8081"]
    assert agent["EnvironmentVariables"] == {"CHENXING_HOME": str(tmp_path / "my home")}
    assert agent["KeepAlive"] == {"SuccessfulExit": False}


def test_systemd(capsys, tmp_path):
    lines = printed(capsys, "--system", "systemd", "smollm2").splitlines()
    (start,) = [line for line in lines if line.startswith("ExecStart=")]
    assert start.endswith(' "-P" "-m" "chenxing" "serve" "smollm2"')
    assert f'Environment="CHENXING_HOME={tmp_path / "my home"}"' in lines


def test_systemds_own_characters_are_escaped():
    start = next(line for line in systemd_unit(['a "b"', "50%", "$HOME", "c\\d"]).splitlines() if "ExecStart" in line)
    assert start == r'ExecStart="a \"b\"" "50%%" "$$HOME" "c\\d"'


def test_a_frozen_program_is_named_itself(capsys, monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    agent = plistlib.loads(printed(capsys, "--system", "launchd", "smollm2").encode())
    assert agent["ProgramArguments"] == [sys.executable, "serve", "smollm2"]


def test_words_that_serve_would_not_take(capsys):
    assert cli.main(["service", "print", "--system", "systemd", "--", "smollm2", "--prot", "1"]) == 2
    assert "unknown flag --prot: did you mean --port" in capsys.readouterr().err


def test_windows_has_none(capsys, monkeypatch):
    monkeypatch.setattr("chenxing.terminal.service.sys.platform", "win32")
    assert cli.main(["service", "print", "smollm2"]) == 2
    assert "Task Scheduler" in capsys.readouterr().err
