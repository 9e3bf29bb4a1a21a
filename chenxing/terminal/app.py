"""`chenxing app`: serves a model and opens its page in the browser. What a double click on the desktop program does."""

import argparse
import json
import socket
import sys
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

from chenxing.terminal import last_model
from chenxing.terminal.numbers import at_least
from chenxing.terminal.parser import Parser
from chenxing.terminal.serve import add_parsers as add_serve_parsers
from chenxing.terminal.serve import serve, serve_options
from chenxing.terminal.window_close import stop_when_window_closes

_DESCRIPTION = """\
Serves a model on this machine and opens its page in the browser. MODEL is what `chenxing run` takes; without one it is
the last one that was used here, at first smollm2. A second `chenxing app` opens the page of the first.
"""
_HOST = "127.0.0.1"


def add_parsers(subparsers: Any, start: Callable[[dict[str, Any]], int]) -> None:
    """Adds the sub-parser of `app`. start: takes the fields of the server's settings, returns the exit code."""
    what = "serve a model and open its page in the browser"
    parser = subparsers.add_parser("app", help=what, description=_DESCRIPTION)
    parser.add_argument("model", nargs="?", metavar="MODEL", help="the model (the last one that was used)")
    parser.add_argument("--port", type=at_least(0), default=8080, metavar="N", help="another one if it is taken (8080)")
    parser.set_defaults(run=lambda args: _run(args, start))


def _run(args: argparse.Namespace, start: Callable[[dict[str, Any]], int]) -> int:
    if args.model is None and is_ours(args.port):
        _open(f"http://{_HOST}:{args.port}/")
        return 0
    model, port = args.model or last_model.recall(), free_port(args.port)
    print(f"chenxing: starting {model}. Close this window, or press Ctrl-C, to stop.", file=sys.stderr)
    with stop_when_window_closes():
        return serve(_options(model, port), start, _open_page)


def _options(model: str, port: int) -> dict[str, Any]:
    """Those of `chenxing serve`, so that all else is as there."""
    subparsers = Parser(prog="chenxing").add_subparsers()
    add_serve_parsers(subparsers, lambda options: 0)
    return serve_options(subparsers.choices["serve"].parse([model, "--port", str(port)]))


def free_port(wanted: int) -> int:
    """This port, or any free one if another program listens there."""
    for port in (wanted, 0):
        with socket.socket() as s:
            if sys.platform != "win32":
                s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind((_HOST, port))
                return int(s.getsockname()[1])
            except OSError:
                continue
    return wanted  # whoever listens there says why it cannot


def is_ours(port: int) -> bool:
    """Whether a chenxing that has loaded its model listens there."""
    try:
        with _ask(port, "/v1/models") as answer:
            models = json.loads(answer.read(1 << 20))["data"]
        return bool(models) and models[0]["owned_by"] == "chenxing"
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _ask(port: int, path: str) -> Any:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy stands before this machine
    return direct.open(f"http://{_HOST}:{port}{path}", timeout=2)


def _open_page(address: str) -> None:
    """In a thread of its own: starting a browser can take long."""
    threading.Thread(target=_open, args=(f"{address}/",), name="browser", daemon=True).start()


def _open(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        print(f"chenxing: no browser could be started: open {url}", file=sys.stderr)
