"""One server's life: open the sockets, load the model, serve, end."""

import asyncio
import contextlib
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from chenxing.errors import UsageError
from chenxing.llm import LLM
from chenxing.server.connections import listen, make_runner
from chenxing.server.logs import start_logging
from chenxing.server.service import Service
from chenxing.server.settings import ServeSettings

_STOPS = {"SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK"}  # the last two: where a system has them


def serve(settings: ServeSettings) -> int:
    """Until SIGTERM or SIGINT. -> the exit code. Raises what loading the model raises, UsageError for the address."""
    start_logging(settings.log_format, requests=settings.has_prompts or settings.log_format == "json")
    return asyncio.run(_serve(settings))


async def _serve(settings: ServeSettings) -> int:
    sockets = [_listen(host, settings.port) for host in settings.hosts]
    service = Service(settings)
    runner = make_runner(service)
    await runner.setup()
    listeners = [await listen(runner, s) for s in sockets]
    stopped = _stop_on_signals()
    try:
        loading = _in_daemon_thread(service.load)
        waiting = asyncio.create_task(stopped.wait())
        either: set[asyncio.Future[Any]] = {loading, waiting}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if loading.done() and not (stopped.is_set() and loading.exception()):  # Ctrl-C may end what loading needs
            llm = loading.result()
            service.open(llm)
            for notice in llm.notices:
                print(f"chenxing: {notice}", file=sys.stderr)
            address = _address(sockets[0])
            print(_line(service, address), file=sys.stderr, flush=True)
            settings.on_ready(address)
            await waiting
    finally:
        for listener in listeners:
            listener.close()  # nobody new comes; who is connected goes on
        await service.close()
        await runner.cleanup()
    return 0


def _listen(host: str, port: int) -> socket.socket:
    """Raises UsageError for an address that cannot be had."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)  # localhost has both
        s = socket.socket(family, socket.SOCK_STREAM)
        if sys.platform != "win32":  # there it would let two servers share a port
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(address)
    except OSError as error:
        raise UsageError(f"--host {host} --port {port}: cannot listen there: {error.strerror or error}") from error
    s.setblocking(False)
    return s


def _in_daemon_thread(function: Callable[[], LLM]) -> asyncio.Future[LLM]:
    """What it returns or raises. The process can end before it does: loading a large model takes long."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[LLM] = loop.create_future()

    def run() -> None:
        try:
            set_outcome = partial(future.set_result, function())
        except BaseException as error:
            set_outcome = partial(future.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop is gone
            loop.call_soon_threadsafe(set_outcome)

    threading.Thread(target=run, name="load", daemon=True).start()
    return future


def _stop_on_signals() -> asyncio.Event:
    """Set by the first SIGTERM, SIGINT or closing of the terminal; a second one ends the process as usual."""
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()

    def stop(number: int) -> None:
        signal.signal(number, signal.SIG_DFL)
        loop.call_soon_threadsafe(stopped.set)

    for number in (n for n in signal.Signals if n.name in _STOPS):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup's way to stay
            with contextlib.suppress(ValueError):  # not in the main thread, as in tests
                signal.signal(number, lambda n, _frame: stop(n))
    return stopped


def _address(s: socket.socket) -> str:
    host, port = s.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _line(service: Service, address: str) -> str:
    llm = service.model
    stats = llm.cache_stats
    cache = f"{stats.n_tokens} tokens in the prefix cache" + ("" if stats.is_writer else ", in memory only")
    return (
        f"chenxing serve: {address} · {service.name} · {service.n_ctx} tokens of context · "
        f"{llm.n_threads} threads · {service.settings.n_slots} answers at once · {cache}"
    )
