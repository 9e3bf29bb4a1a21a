"""Tries the desktop program as somebody would who has just unpacked it: `python packaging/smoke.py [MODEL.gguf]`.

It is moved to a folder with spaces and Chinese letters in its name, started with an empty home and no PATH, and must
leave its own folder, which nobody may write, as it was. root may write anywhere: it starts the program as nobody.
Without a model it pulls the built-in smollm2 by itself, as a user would.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from build import PROGRAM, version

IS_WINDOWS = sys.platform == "win32"
NOBODY = {"user": 65534, "group": 65534, "extra_groups": []} if not IS_WINDOWS and os.geteuid() == 0 else {}
QUESTION = ["-p", "Name a colour.", "-n", "8", "--temp", "0"]
_SECONDS = 600


class Program:
    """The program in a folder of its own, and the home that it is started with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "my programs 晨星" / "chenxing"
        shutil.copytree(PROGRAM, self.folder, symlinks=True)
        self.home = folder / "home"
        self.home.mkdir()
        self.command = str(self.folder / ("chenxing.exe" if IS_WINDOWS else "chenxing"))
        _make_read_only(self.folder)
        if NOBODY:
            folder.chmod(0o755)
            os.chown(self.home, NOBODY["user"], NOBODY["group"])

    def environment(self, **more: str) -> dict[str, str]:
        """A home and nothing else; Windows' programs do not start without its own folder."""
        env = {"HOME": str(self.home), "USERPROFILE": str(self.home), "LOCALAPPDATA": str(self.home), "PATH": ""}
        return env | {k: v for k, v in os.environ.items() if k.upper() == "SYSTEMROOT"} | more

    def run(self, *words: str, code: int = 0, **env: str) -> tuple[str, str]:
        """Its output and its messages. Fails unless it ends with this code."""
        done = subprocess.run(
            [self.command, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            env=self.environment(**env),
            timeout=_SECONDS,
            cwd=self.home,
            **NOBODY,
        )
        assert done.returncode == code, f"{words}: exit code {done.returncode}, expected {code}: {done.stderr}"
        return done.stdout, done.stderr

    def start(self, *words: str, **streams: Any) -> subprocess.Popen:
        """The running program; streams are Popen's."""
        command, env = [self.command, *words], self.environment()
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, env=env, cwd=self.home, **streams, **NOBODY)

    def serve(self, *words: str, check: Callable[[str], None], stop: signal.Signals = signal.SIGTERM) -> None:
        """Start a server, hand its address to `check`, and have it end in order."""
        log = self.home / "log"
        with log.open("w+", encoding="utf-8") as messages:
            server = self.start(*words, stderr=messages)
            try:
                check(_address(server, log))
                server.send_signal(stop)
                code = server.wait(20)
                assert code == 0 or IS_WINDOWS, f"{words}: exit code {code}: {log.read_text(encoding='utf-8')}"
            finally:
                server.kill()
                server.wait()


def _address(server: subprocess.Popen, log: Path) -> str:
    """From the line that it prints when its model is loaded."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        if found := re.search(r"serve: (http://[\w.:\[\]]+)", log.read_text(encoding="utf-8")):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"the server did not start: {log.read_text(encoding='utf-8')}")


def _make_read_only(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o222)


def _contents(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in folder.rglob("*")}


def _post(url: str, body: dict) -> dict:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def _answers(address: str) -> None:
    body = {"messages": [{"role": "user", "content": "Name a colour."}], "max_tokens": 8, "temperature": 0}
    assert _post(f"{address}/v1/chat/completions", body)["choices"][0]["message"]["content"]
    with urllib.request.urlopen(f"{address}/", timeout=60) as page:
        assert "<html" in page.read().decode("utf-8"), "the chat page is missing"


def _stays_up(address: str) -> None:
    with urllib.request.urlopen(f"{address}/health", timeout=60) as answer:
        assert answer.status == 200


def check_version(program: Program, model: str) -> None:
    out, _ = program.run("--version")
    build = (PROGRAM / "_internal" / "chenxing" / "BUILD").read_text(encoding="ascii")
    assert out == f"chenxing {version()} (build {build})\n", out


def check_first_and_second_run(program: Program, model: str) -> None:
    first, messages = program.run("run", model, *QUESTION)
    assert "compile kernels" in messages, f"the first run did not say that it compiles: {messages}"
    second, messages = program.run("run", model, *QUESTION)
    assert "compile" not in messages, f"the second run compiled again: {messages}"
    assert first == second and first.strip()


def check_cache(program: Program, model: str) -> None:
    out, _ = program.run("cache", "show", "--json")
    found = {row["section"] for row in json.loads(out)}
    assert {"kernels", "weights", "kv"} <= found, out
    program.run("cache", "verify")


def check_doctor(program: Program, model: str) -> None:
    out, _ = program.run("doctor", "--json")
    assert json.loads(out)["processor"]["chosen"] != "none"


def check_selfcheck(program: Program, model: str) -> None:
    out, _ = program.run("-h")
    if " selfcheck " in out:
        program.run("selfcheck")


def check_serve(program: Program, model: str) -> None:
    program.serve("serve", model, "--port", "0", check=_answers)


def check_app(program: Program, model: str) -> None:
    """A closed terminal (SIGHUP) ends it in order; afterwards the model is the one that opens by itself."""
    stop = signal.SIGTERM if IS_WINDOWS else signal.SIGHUP
    program.serve("app", model, "--port", "0", check=_stays_up, stop=stop)


def check_without_a_writable_cache(program: Program, model: str) -> None:
    nowhere = program.home / "a file"
    nowhere.write_text("where the folder should be")
    out, _ = program.run("run", model, *QUESTION, CHENXING_HOME=str(nowhere))
    assert out.strip()


def check_interrupts(program: Program, model: str) -> None:
    """Ctrl-C at many moments of an answer's life is 130 for a shell and says nothing, or comes too late.

    What Python says while it starts is not ours: no file of the program is in it.
    """
    if IS_WINDOWS:
        return  # it has no Ctrl-C for one process alone
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job's children have it ignored
    for ms in range(0, 1000, 25):
        process = program.start("run", model, *QUESTION, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(ms / 1000)
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=60)
        is_ours = b"chenxing" in messages or b"program.py" in messages
        is_quiet = process.returncode in (-signal.SIGINT, 130, 0) and not messages
        assert is_quiet or (messages and not is_ours), f"after {ms} ms: {process.returncode}, {messages.decode()}"


def check_no_terminal_and_no_desktop(program: Program, model: str) -> None:
    if not IS_WINDOWS:
        _, messages = program.run(code=2)
        assert "usage: chenxing" in messages


CHECKS: list[Callable[[Program, str], None]] = [
    check_version,
    check_no_terminal_and_no_desktop,
    check_first_and_second_run,
    check_cache,
    check_doctor,
    check_serve,
    check_app,
    check_interrupts,
    check_selfcheck,
    check_without_a_writable_cache,
]


def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        program = Program(Path(folder))
        before = _contents(program.folder)
        model = str(Path(sys.argv[1]).absolute()) if len(sys.argv) > 1 else "smollm2"
        for check in CHECKS:
            start = time.monotonic()
            check(program, model)
            print(f"{check.__name__.removeprefix('check_')}: fine, {time.monotonic() - start:.1f} s", flush=True)
        assert _contents(program.folder) == before, "the program wrote into its own folder"


if __name__ == "__main__":
    main()
