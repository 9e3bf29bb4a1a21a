"""`chenxing app`: the port, the model, the browser."""

import json
import socket
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from chenxing.terminal import app, last_model
from chenxing.terminal.parser import Parser


@contextmanager
def server(owner: str):
    """A server whose list of models names its maker."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"data": [{"id": "m", "owned_by": owner}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield http.server_address[1]
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


@pytest.fixture
def opened(monkeypatch):
    pages, seen = [], threading.Event()
    monkeypatch.setattr("webbrowser.open", lambda url: (pages.append(url), seen.set()))
    monkeypatch.setattr(last_model, "remember", lambda model: None)  # serve's affair
    monkeypatch.setattr(last_model, "recall", lambda: "last")
    return pages, seen


def run(*words: str, start):
    subparsers = Parser(prog="chenxing").add_subparsers()
    app.add_parsers(subparsers, start)
    args = subparsers.choices["app"].parse(list(words))
    return args.run(args)


def test_the_page_opens_when_the_model_is_there(opened):
    pages, seen = opened
    started = []

    def start(options):
        started.append(options)
        assert not pages
        options["on_ready"]("http://127.0.0.1:1234")
        assert seen.wait(20)
        return 0

    assert run("toy.gguf", start=start) == 0
    assert started[0]["model"] == "toy.gguf" and started[0]["hosts"] == ("127.0.0.1",)
    assert pages == ["http://127.0.0.1:1234/"]


def test_a_second_one_opens_the_page_of_the_first(opened):
    def start(options):
        raise AssertionError("a second server was started")

    with server("chenxing") as port:
        assert run("--port", str(port), start=start) == 0
    assert opened[0] == [f"http://127.0.0.1:{port}/"]


def test_another_program_keeps_its_port(opened):
    started = []
    with server("llamacpp") as port:
        assert not app.is_ours(port)
        assert run("--port", str(port), start=lambda options: started.append(options) or 0) == 0
        assert started[0]["port"] not in (0, port) and started[0]["model"] == "last"


def test_a_free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        taken = s.getsockname()[1]
        other = app.free_port(taken)
        assert other not in (0, taken)
    assert app.free_port(other) == other
