"""Long prompts, clients that vanish, a server that is killed: streams stay alive, nothing leaks, nothing is lost."""

import json
import os
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from running import TEMPLATE, Running, begun, running, toy_settings, until

from chenxing.config import settings
from chenxing.models import Run
from chenxing.server import stream

LINGER = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
PROMPT = "about there would other into more time some could them than like now over only its "


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """Each of its steps takes 20 ms and does 8 tokens of a prompt."""
    options = toy_settings(tmp_path).model_options | {"n_batch": 8}
    for server in running(toy_settings(tmp_path, model_options=options)):
        monkeypatch.setattr(server.service.model.engine.model, "step", slowed(server.service.model.engine.model.step))
        yield server


def slowed(step: Callable) -> Callable:
    return lambda runs: (time.sleep(0.02), step(runs))[1]


def n_processing(server: Running) -> int:
    return sum(slot["is_processing"] for slot in server.get("/slots").json)


def check_pages(server: Running) -> None:
    """Soon nobody holds a page, and each has its holder."""
    service = server.service
    cache = service.model.engine._cache

    def look() -> bool:
        cache.check_integrity()
        return cache.n_free == cache.n_pages

    assert until(lambda: service._thread.call(look))


def test_a_long_prompt_keeps_its_connection_alive(slow: Running, monkeypatch):
    monkeypatch.setattr(stream, "KEEP_ALIVE_SECONDS", 0.05)
    reply = slow.post("/completion", {"prompt": PROMPT * 4, "n_predict": 2, "stream": True})
    before, _, after = reply.data.partition(b"data: ")
    assert before.count(b": keep-alive\n\n") >= 3 and before.replace(b": keep-alive\n\n", b"") == b""
    assert json.loads((b"{" + after.partition(b"{")[2]).partition(b"\n\n")[0])["stop"] is False


def test_a_prompt_that_is_left_half_way_is_gone_on_with(slow: Running):
    body = {"prompt": PROMPT * 4, "n_predict": 2, "stream": True, "return_progress": True}
    s = begun(slow, body)
    data = b""
    while data.count(b"prompt_progress") < 6:
        data += s.recv(4096)
    s.close()
    assert until(lambda: not n_processing(slow))
    check_pages(slow)
    timings = slow.post("/completion", body | {"stream": False}).json["timings"]
    assert timings["cache_n"] >= 32 and timings["prompt_n"] > 32  # at least the page that was full; not all of it


def test_who_vanishes_ends_the_step_that_runs_for_nobody_else(server: Running, monkeypatch: pytest.MonkeyPatch):
    model, engine = server.service.model.engine.model, server.service.model.engine
    whole_step, cut, is_running = model.step, model.team._cut, threading.Event()
    ends: list[bool] = []

    def endless(runs: Sequence[Run]) -> np.ndarray:
        is_running.set()
        ends.append(until(lambda: cut.is_set))
        return whole_step(runs)

    n_computed = server.service._thread.call(engine.stats).n_computed
    monkeypatch.setattr(model, "step", endless)
    s = begun(server, {"prompt": PROMPT * 5, "n_predict": 2, "stream": True})
    assert is_running.wait(60)
    s.close()
    assert until(lambda: not n_processing(server)) and until(lambda: bool(ends))
    monkeypatch.setattr(model, "step", whole_step)
    assert server.service._thread.call(engine.stats).n_computed == n_computed and ends == [True]
    check_pages(server)
    timings = server.post("/completion", {"prompt": PROMPT * 5, "n_predict": 2}).json["timings"]
    assert timings["cache_n"] < 32 < timings["prompt_n"]  # nothing of it is taken for computed


def test_64_clients_that_stream_and_vanish(server: Running):
    expected = server.post("/completion", {"prompt": "the star", "n_predict": 8}).json["content"]

    def client(seed: int) -> None:
        rng = random.Random(seed)
        words = rng.choices(PROMPT.split(), k=rng.randint(1, 40))
        wish = {"prompt": " ".join(words), "n_predict": 60, "stream": True, "ignore_eos": True, "seed": seed}
        s = begun(server, wish | {"temperature": 1.0, "n": rng.choice([1, 1, 2])})
        n = rng.choice([0, 1, 1000, 5_000])
        while n > 0 and (data := s.recv(4096)):
            n -= len(data)
        if rng.random() < 0.5:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)  # a reset, not an end
        s.close()

    crowd = [threading.Thread(target=client, args=(seed,)) for seed in range(64)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert until(lambda: not n_processing(server) and not server.service._jobs)
    check_pages(server)
    assert server.post("/completion", {"prompt": "the star", "n_predict": 8}).json["content"] == expected


def started(model: str, home: Path) -> tuple[subprocess.Popen, int]:
    if not (home / "cache").exists():
        shutil.copytree(settings().paths.cache / "kernels", home / "cache" / "kernels")
    command = [sys.executable, "-m", "chenxing", "serve", model, "--port", "0", "-c", "4096", "-t", "1"]
    command += ["--no-weight-cache", "--cache-disk", "1GiB", "--chat-template", TEMPLATE]
    environment = os.environ | {"CHENXING_HOME": str(home)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr
    line = next(line for line in process.stderr if line.startswith("chenxing serve:"))
    return process, int(re.search(r"127\.0\.0\.1:(\d+)", line)[1])


@pytest.mark.slow
def test_killed_while_8_clients_stream_their_prefixes_are_found(tmp_path: Path):
    model = toy_settings(tmp_path).model
    prompts = [f"{word} {PROMPT * 2}" for word in PROMPT.split()[:8]]
    process, port = started(model, tmp_path)
    try:
        at = Running.__new__(Running)
        at.port = port
        lengths = [len(at.post("/tokenize", {"content": p, "add_special": True}).json["tokens"]) for p in prompts]
        wish = {"n_predict": 3000, "stream": True, "ignore_eos": True}
        streams = [begun(at, wish | {"prompt": prompt}) for prompt in prompts]
        for s in streams:
            while b"data: " not in s.recv(4096):
                pass
        sizes: list[int] = []

        def is_written() -> bool:
            sizes.append(sum(path.stat().st_size for path in tmp_path.rglob("index")))
            return sizes[-1] > sizes[0] and len(sizes) > 100  # a second after the first page

        assert until(is_written)
        process.kill()
        process.wait()
        process, at.port = started(model, tmp_path)
        for prompt, n in zip(prompts, lengths, strict=True):
            timings = at.post("/completion", {"prompt": prompt, "n_predict": 1}).json["timings"]
            assert timings["cache_n"] >= (n - 1) // 32 * 32, (timings, n)
    finally:
        process.kill()
        process.wait()
