"""`chenxing run` as processes that share, kill each other, and find the cache in no state to be used."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from chenxing.config import settings

pytestmark = pytest.mark.model
TEXT = "Once upon a time there was a lighthouse at the end of the world, and in it lived a keeper of few words. " * 8
FLAGS = ["--raw", "-p", TEXT, "--temp", "0", "-c", "1024", "-t", "1"]


class Home:
    """A home of its own, with the user's compiled kernels."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.cache, self.model = folder / "cache", model
        self._env = {**os.environ, "CHENXING_HOME": str(folder)}
        shutil.copytree(settings().paths.cache / "kernels", self.cache / "kernels")

    @property
    def kv(self) -> Path:
        return self.cache / "kv"

    def start(self, *flags: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "chenxing", "run", str(self.model), *FLAGS, *flags]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=self._env, text=True, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)

    def run(self, *flags: str) -> tuple[dict[str, Any], str]:
        """-> the JSON object that it prints, what it says on stderr"""
        process = self.start("--json", "-n", "16", *flags)
        out, err = process.communicate()
        assert process.returncode == 0, err
        return json.loads(out), err


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path) -> Path:
    """A home in which kernels and weights are ready, and no KV."""
    folder = tmp_path_factory.mktemp("first")
    home = Home(folder, smollm2_path)
    home.run("--no-disk-cache")
    assert not home.kv.exists()
    return folder


@pytest.fixture
def home(first: Path, tmp_path: Path, smollm2_path: Path) -> Home:
    shutil.copytree(first / "cache", tmp_path / "home/cache", ignore=shutil.ignore_patterns("kernels"))
    return Home(tmp_path / "home", smollm2_path)


def test_the_next_process_reuses_all_but_the_last_token(home: Home) -> None:
    cold, _ = home.run()
    assert cold["cached_tokens"] == 0
    warm, _ = home.run()
    assert warm["cached_tokens"] == cold["prompt_tokens"] - 1 and warm["text"] == cold["text"]
    assert warm["timings"]["cache_disk_n"] == warm["cached_tokens"]
    without, _ = home.run("--no-disk-cache")
    assert without["cached_tokens"] == 0 and without["text"] == cold["text"]


def test_a_second_process_reads_along(home: Home) -> None:
    writer = home.start("-n", "100000", "--ignore-eos")
    try:
        assert writer.stdout
        writer.stdout.read(1)  # the prompt is computed
        deadline = time.monotonic() + 60
        while not home.kv.exists() or not any(f.stat().st_size for f in home.kv.glob("*/pages")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        along, err = home.run()
        assert along["cached_tokens"] > 0 and not err
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.communicate()
    alone, _ = home.run("--no-disk-cache")
    assert alone["text"] == along["text"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on Windows")
def test_what_was_sealed_survives_a_kill_in_the_midst_of_an_answer(home: Home) -> None:
    cold, _ = home.run("--no-disk-cache")
    killed = home.start("-n", "100000", "--ignore-eos")
    assert killed.stdout
    text = killed.stdout.read(60)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL and cold["text"].lstrip().startswith(text.lstrip()[:20])
    warm, err = home.run()
    assert warm["text"] == cold["text"] and not err
    assert cold["prompt_tokens"] - 32 <= warm["cached_tokens"] < cold["prompt_tokens"]  # whole pages were sealed


def test_no_disk_cache_leaves_no_file(home: Home) -> None:
    home.run("--no-disk-cache")
    home.run("--cache-disk", "0")
    assert not home.kv.exists()


def test_a_cache_that_cannot_be_written_is_one_warning(home: Home) -> None:
    cold, _ = home.run("--no-disk-cache")
    home.kv.write_bytes(b"")  # a file where the folder should be: also root cannot write into it
    again, err = home.run()
    assert again["text"] == cold["text"] and again["cached_tokens"] == 0
    assert err.count("\n") == 1 and err.startswith("chenxing: ") and "prompts are remembered in memory only" in err
