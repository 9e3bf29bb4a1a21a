"""Crowds, clients that vanish, a model that is not there yet, and the end."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from running import TEMPLATE, Running, toy_settings, until

LONG = {"prompt": "the star", "ignore_eos": True, "n_predict": 400, "stream": True}


def test_64_clients_get_what_one_gets(server: Running):
    def wish(i: int) -> dict:
        return {"prompt": f"the {'star ' * (i % 5)}", "n_predict": 8, "seed": i, "temperature": 1.0}

    alone = [server.post("/completion", wish(i)).json["content"] for i in range(64)]

    async def ask(session: aiohttp.ClientSession, i: int) -> str:
        async with session.post(f"http://127.0.0.1:{server.port}/completion", json=wish(i)) as reply:
            return (await reply.json())["content"]

    async def crowd() -> list[str]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:
            return await asyncio.gather(*(ask(session, i) for i in range(64)))

    assert asyncio.run(crowd()) == alone


def test_a_client_that_vanishes_frees_its_place_and_keeps_its_prefix(server: Running):
    import json

    for _ in range(3):
        connection = server.connection()
        connection.request("POST", "/completion", json.dumps(LONG | {"prompt": "could them than like"}))
        response = connection.getresponse()
        assert response.read(6) == b"data: "
        response.close()
        connection.close()
    assert until(lambda: not any(slot["is_processing"] for slot in server.get("/slots").json))
    again = server.post("/completion", {"prompt": "could them than like", "n_predict": 1}).json
    assert again["timings"]["prompt_n"] == 1


def test_threads_take_short_turns(server: Running):
    assert sys.getswitchinterval() < 0.001  # an engine that waits for the interpreter waits this long


def test_health_says_503_while_loading(tmp_path: Path):
    server = Running(toy_settings(tmp_path), load=False)
    for method, path in (("GET", "/health"), ("POST", "/v1/chat/completions"), ("GET", "/props")):
        reply = server.ask(method, path, {} if method == "POST" else None)
        assert reply.status == 503 and reply.error == {
            "code": 503,
            "message": "Loading model",
            "type": "unavailable_error",
        }
    server.close()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM to send")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])  # SIGHUP: its terminal was closed
def test_a_signal_ends_streams_within_a_bound(name: str, tmp_path: Path):
    settings = toy_settings(tmp_path)
    command = [sys.executable, "-m", "chenxing", "serve", settings.model, "--port", "0", "-c", "512", "-t", "1"]
    command += ["--no-weight-cache", "--no-disk-cache", "--chat-template", TEMPLATE]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        assert process.stderr
        line = next(line for line in process.stderr if line.startswith("chenxing serve:"))
        port = int(re.search(r"127\.0\.0\.1:(\d+)", line)[1])
        assert "512 tokens" in line and "1 threads" in line

        async def stream() -> bytes:
            async with aiohttp.ClientSession() as session:
                async with session.post(f"http://127.0.0.1:{port}/completion", json=LONG) as reply:
                    data = await reply.content.readany()
                    process.send_signal(signal.Signals[name])
                    return data + await reply.content.read()

        data = asyncio.run(stream())
        assert process.wait(timeout=20) == 0
        assert data.startswith(b"data: ") and (b'"stop":true' in data or b"shutting down" in data)
    finally:
        process.kill()
        process.wait()


def test_running_answers_are_told_of_the_end(tmp_path: Path):
    server = Running(toy_settings(tmp_path, shutdown_seconds=0.0))
    import json

    connection = server.connection()
    connection.request("POST", "/completion", json.dumps(LONG))
    response = connection.getresponse()
    assert response.read(6) == b"data: "
    server.close()
    assert b"shutting down" in response.read()
