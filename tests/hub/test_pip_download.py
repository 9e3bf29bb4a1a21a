import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

import pytest
from tiny_models import write_wheel

from chenxing.errors import DownloadError
from chenxing.hub import pip_download
from chenxing.hub.pip_download import download_wheel, pip_command


@pytest.fixture
def no_pip_module(monkeypatch):
    """As in an environment that uv made."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else find_spec(name))


def test_from_the_users_index_with_progress(wheels, tmp_path, monkeypatch):
    """A package index as PEP 503 has it, on this machine."""
    site = tmp_path / "site" / "simple" / "tiny"
    content = os.urandom(3_000_000)  # pip shows progress above 512 kB
    wheel = write_wheel(site, "tiny", "tiny/data", content)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (site / "index.html").write_text(f'<a href="{wheel.name}#sha256={digest}">{wheel.name}</a>')
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_QuietHandler, directory=str(tmp_path / "site")))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    fractions = []
    try:
        found = download_wheel("tiny==1.0.0", _folder(tmp_path), 1, fractions.append)
    finally:
        server.shutdown()
        server.server_close()
    assert found.read_bytes() == wheel.read_bytes()
    assert fractions == sorted(fractions)
    reports = tuple(map(int, version("pip").split(".")[:2])) >= (24, 1)  # older ones report to terminals only
    assert fractions[-1:] == ([1] if reports else [])


def test_without_a_pip_module_the_one_of_the_standard_library_runs(no_pip_module):
    bundled = pip_download._bundled_pip()
    if bundled is None:
        pytest.skip("this Python came without ensurepip's wheel")
    assert pip_command() == [sys.executable, "-P", str(bundled / "pip")]
    said = subprocess.run([*pip_command(), "--version"], capture_output=True, text=True, check=True).stdout
    assert said.startswith("pip ")


def test_without_any_pip_it_says_what_to_do(monkeypatch, no_pip_module):
    monkeypatch.setattr(pip_download, "_bundled_pip", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/pip3" if name == "pip3" else None)
    assert pip_command() == ["/usr/bin/pip3"]
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(DownloadError, match=r"python -m ensurepip.*uv pip install pip"):
        pip_command()


def test_a_frozen_program_is_its_own_pip(monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert pip_command() == [sys.executable, "-m", "pip"]


def test_an_old_pip_without_raw_progress(wheels, tmp_path, monkeypatch):
    write_wheel(wheels, "tiny", "tiny/data", b"x")
    run, bars = pip_download._run, []

    def old_pip(command, on_fraction):
        bars.append(command[command.index("--progress-bar") + 1])
        if bars[-1] == "raw":
            return 2, "option --progress-bar: invalid choice: 'raw' (choose from 'on', 'off')"
        return run(command, on_fraction)

    monkeypatch.setattr(pip_download, "_run", old_pip)
    assert download_wheel("tiny==1.0.0", _folder(tmp_path), 1, lambda _: None).exists()
    assert bars == ["raw", "off"]


def test_a_pip_py_in_the_users_folder_is_not_run(wheels, tmp_path):
    (tmp_path / "pip.py").write_text("raise SystemExit('not pip')")  # the working folder of these tests
    write_wheel(wheels, "tiny", "tiny/data", b"x")
    assert download_wheel("tiny==1.0.0", _folder(tmp_path), 1, lambda _: None).exists()


def test_a_disk_that_gets_full_inside_pip(tmp_path, monkeypatch):
    text = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    monkeypatch.setattr(pip_download, "_run", lambda command, on_fraction: (1, text))
    with pytest.raises(DownloadError, match=r"tiny==1\.0\.0: the disk of .* too full: 92\.9 MB needed"):
        download_wheel("tiny==1.0.0", _folder(tmp_path), 92_900_000, lambda _: None)


def test_pip_does_not_outlive_an_interrupted_pull(tmp_path, monkeypatch):
    started = []
    popen = subprocess.Popen

    def remember(*args, **kwargs):
        started.append(popen(*args, **kwargs))
        return started[-1]

    def interrupt(fraction):
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", remember)
    code = "import time; print('Progress 1 of 2', flush=True); time.sleep(60)"
    with pytest.raises(KeyboardInterrupt):
        pip_download._run([sys.executable, "-c", code], interrupt)
    assert started[0].returncode != 0  # ended by us, not by itself


def test_the_reason_is_one_line_of_pips_own_words():
    output = "Looking in links: x\nERROR: Could not find a version\nERROR: No matching distribution found for y\n"
    assert pip_download._reason(output) == "Could not find a version; No matching distribution found for y"
    crash = "ERROR: Exception:\nTraceback\n  File\nOSError: [Errno 5] Input/output error"
    assert pip_download._reason(crash) == "OSError: [Errno 5] Input/output error"


def _folder(tmp_path):
    (tmp_path / "download").mkdir()
    return tmp_path / "download"


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass
