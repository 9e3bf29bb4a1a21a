"""The desktop program's entry, its build's facts and its licences. The build itself is tried by packaging/smoke.py."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from chenxing import __version__
from chenxing.kernels.objects import read_object

PACKAGING = Path(__file__).parent.parent / "packaging"
CAP = "chenxing.kernels.rows:cap"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"packaging_{name}", PACKAGING / f"{name}.py")
    assert spec and spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def program(*words: str, data: str = "", **env: str) -> subprocess.CompletedProcess:
    command = [sys.executable, PACKAGING / "program.py", *words]
    variables = os.environ | {"PYTHONPATH": str(PACKAGING.parent)} | env
    return subprocess.run(command, input=data, capture_output=True, text=True, env=variables, timeout=120)


def test_it_is_the_command_line():
    assert program("--version").stdout == f"chenxing {__version__}\n"


def test_without_a_terminal_and_a_desktop_it_shows_its_help():
    done = program(DISPLAY="", WAYLAND_DISPLAY="")
    assert done.returncode == 2 and done.stderr.startswith("usage: chenxing")


def test_it_is_its_own_compiler(tmp_path):
    path = tmp_path / "cap.o"
    job = json.dumps({"isa": "sse", "kernels": {CAP: str(path)}})
    done = program("-m", "chenxing.kernels.compile", data=job)
    assert done.stdout == f"{CAP}\n", done.stderr
    assert read_object(path)


def test_it_is_its_own_pip():
    pytest.importorskip("pip")
    assert program("-m", "pip", "--version").stdout.startswith("pip ")


def test_what_a_build_is_called():
    build = module("build")
    assert build.version() == __version__
    assert len(build.build_id()) == 12 and build.build_id() == build.build_id()


def test_licences_of_what_is_inside(tmp_path):
    licences = module("licences")
    own = PACKAGING.parent / "LICENSE"
    missing = licences.collect({"numpy", "numba", "xxhash", "sys"}, [], tmp_path / "licenses", own)
    assert missing == []
    found = {path.name.partition("-")[0] for path in (tmp_path / "licenses").iterdir()}
    assert found == {"chenxing.txt", "python.txt", "numpy", "numba", "xxhash"}
    assert any("BSD" in path.read_text("utf-8", "replace") for path in (tmp_path / "licenses").rglob("*LICENSE*"))


def test_a_licence_that_is_missing_is_told(tmp_path, monkeypatch):
    licences = module("licences")
    monkeypatch.setattr(licences, "_copy", lambda distribution, folder: 0)
    missing = licences.collect({"numpy"}, [], tmp_path / "licenses", PACKAGING.parent / "LICENSE")
    assert missing == ["numpy"]
