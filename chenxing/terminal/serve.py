"""The flags of `chenxing serve`: llama-server's names and defaults. What they start is given by the command line."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chenxing.errors import UsageError
from chenxing.terminal import last_model
from chenxing.terminal.args import (
    add_cache_flags,
    add_model_flags,
    add_template_flags,
    cache_options,
    model_options,
    template_kwargs,
    template_override,
)
from chenxing.terminal.inputs import read_text_file
from chenxing.terminal.numbers import at_least
from chenxing.terminal.progress import ProgressLine
from chenxing.terminal.sampling_flags import add_sampling_flags, given_sampling
from chenxing.terminal.spec_flags import add_spec_flags, spec_options

_DESCRIPTION = """\
Serves a model over HTTP, as OpenAI's API and as llama-server do. MODEL is what `chenxing run` takes.
"""
_EPILOG = """\
examples:
  chenxing serve smollm2
  chenxing serve model.gguf --port 8081 -c 16384
  chenxing serve smollm2 --host 0.0.0.0 --api-key-file key.txt
"""
_N_SLOTS, _N_BATCH = 8, 256
_LOOPBACK = ("localhost", "127.", "::1")


def add_parsers(subparsers: Any, start: Callable[[dict[str, Any]], int]) -> None:
    """Adds the sub-parser of `serve`. start: takes the fields of the server's settings, returns the exit code."""
    parser = subparsers.add_parser(
        "serve",
        help="serve a model over HTTP",
        usage="chenxing serve [flags] MODEL",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument("model", nargs="?", metavar="MODEL", help="the model")
    _add_server_flags(parser.add_argument_group("server"))
    _add_answer_flags(parser.add_argument_group("answers"))
    add_model_flags(parser.add_argument_group("model"))
    add_cache_flags(parser.add_argument_group("cache of prompts"))
    template = parser.add_argument_group("chat template")
    add_template_flags(template)
    template.add_argument("--no-jinja", action="store_true", help="accepted likewise")
    template.add_argument("-rea", "--reasoning", choices=("on", "off", "auto"), default="auto", help=_REASONING)
    add_spec_flags(parser.add_argument_group("speculative decoding, which changes no answer"))
    add_sampling_flags(parser.add_argument_group("sampling", "for requests that do not say otherwise"))
    _add_ignored_flags(parser.add_argument_group("accepted for llama-server's sake, without effect"))
    parser.set_defaults(run=lambda args: serve(serve_options(args), start))


def serve(
    options: dict[str, Any],
    start: Callable[[dict[str, Any]], int],
    on_ready: Callable[[str], None] = lambda address: None,
) -> int:
    """Starts a server with these options of `serve_options`; shows what loading does, and notes which model it was.

    on_ready: told the address when requests are answered. -> the exit code
    """

    def ready(address: str) -> None:
        last_model.remember(options["model"])
        on_ready(address)

    model_options = options["model_options"] | {"on_progress": _progress()}
    return start(options | {"model_options": model_options, "on_ready": ready})


def _progress() -> Callable[[str, float], None]:
    """Shows what loading does, and takes each stage off the terminal when it is over."""
    line = ProgressLine(sys.stderr)

    def update(stage: str, fraction: float) -> None:
        line.update(stage, fraction)
        if fraction >= 1:
            line.clear()

    return update


_REASONING = "whether templates are told that the model may think aloud: on, off, auto, which is on (auto)"


def _add_server_flags(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("-m", "--model", dest="model_flag", metavar="MODEL", help="the same as MODEL")
    add("--host", default="127.0.0.1", metavar="HOSTS", help="addresses to listen at, divided by commas (127.0.0.1)")
    add("--port", type=at_least(0), default=8080, metavar="N", help="0: any free one (8080)")
    add("--api-key", default="", metavar="KEYS", help="keys that clients must send one of, divided by commas")
    add("--api-key-file", metavar="FILE", help="the same from a file, one a line")
    add("--allow-no-key", action="store_true", help="listen beyond this machine without asking for a key")
    add("--allowed-hosts", default="", metavar="NAMES", help="further names of this server in Host headers")
    help_origins = "origins whose pages may ask, `*` for all (this machine's; all if there is a key)"
    add("--cors-origins", metavar="ORIGINS", help=help_origins)
    add("-a", "--alias", default="", metavar="NAMES", help="what clients call the model")
    add("--tags", default="", metavar="TAGS", help="labels of the model")
    help_sleep = "let go of the model after so many seconds without a request, until the next one; -1: never (-1)"
    add("--sleep-idle-seconds", type=at_least(-1), default=-1, metavar="N", help=help_sleep)
    add("--slots", action="store_true", default=True, help="show at /slots who is being answered (on)")
    add("--no-slots", dest="slots", action="store_false", help="do not")
    add("--metrics", action="store_true", help="figures for Prometheus at /metrics")
    add("--ui", "--webui", dest="ui", action="store_true", default=True, help="a chat at / and the API's docs (on)")
    add("--no-ui", "--no-webui", dest="ui", action="store_false", help="no pages")
    add("--slot-save-path", metavar="FOLDER", help="where /slots/N?action=save may write")
    help_log = "text, or json: an object a line, and a line for each request (text)"
    add("--log-format", choices=("text", "json"), default="text", help=help_log)
    add("-v", "--verbose", action="store_true", help="log requests; show prompts in answers, as `__verbose`")


def _add_answer_flags(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    help_parallel = "answers that run at once, which share the context unless --no-kv-unified (8)"
    add("-np", "--parallel", type=at_least(-1), metavar="N", help=help_parallel)
    help_unified = "one answer may use the whole context; by default so unless --parallel is given"
    add("-kvu", "--kv-unified", action="store_true", default=None, help=help_unified)
    add("--no-kv-unified", dest="kv_unified", action="store_false", help="each answer may use its share of it")
    help_shift = "an answer whose context is full goes on with a part of it (off)"
    add("--context-shift", action="store_true", help=help_shift)
    add("--no-context-shift", dest="context_shift", action="store_false", help="it ends there")
    help_keep = "tokens at the beginning that stay in a shift; -1: the whole prompt (0)"
    add("--keep", dest="n_keep", type=at_least(-1), default=0, metavar="N", help=help_keep)
    help_batch = "tokens of prompts that one step takes at most (256, which is also the most)"
    add("-b", "--batch-size", dest="n_batch", type=at_least(1), default=_N_BATCH, metavar="N", help=help_batch)
    help_length = "tokens of an answer, where a request does not say; -1: until the model ends it (-1)"
    add(
        "-n", "--predict", "--n-predict", dest="n_predict", type=at_least(-1), default=-1, metavar="N", help=help_length
    )


def _add_ignored_flags(group: argparse._ArgumentGroup) -> None:
    for names, what in (
        (("--offline",), "nothing is fetched for a model that is here"),
        (("-cb", "--cont-batching"), "it always is"),
        (("--no-cache-idle-slots",), "the cache does not know slots"),
    ):
        group.add_argument(*names, action="store_true", help=what)
    for names, what in (
        (("-ub", "--ubatch-size"), "found by measuring"),
        (("-fa", "--flash-attn"), "it always is"),
    ):
        group.add_argument(*names, metavar="X", help=what)


def serve_options(args: argparse.Namespace) -> dict[str, Any]:
    """The fields of ServeSettings. Raises UsageError, ChenxingError for files."""
    hosts, keys = _list(args.host), _list(args.api_key)
    if args.api_key_file is not None:
        keys += tuple(line.strip() for line in read_text_file(args.api_key_file).splitlines() if line.strip())
    if not hosts:
        raise UsageError("--host: expected an address, found none")
    open_to = [host for host in hosts if not host.startswith(_LOOPBACK)]
    if open_to and not keys and not args.allow_no_key:
        raise UsageError(
            f"--host {open_to[0]} lets other machines ask: give --api-key or --api-key-file, or say --allow-no-key"
        )
    if args.port > 65535:
        raise UsageError(f"--port: expected 0 to 65535, found {args.port}")
    n_slots = args.parallel if args.parallel and args.parallel > 0 else _N_SLOTS
    return {
        "model": _model(args),
        "model_options": _model_options(args),
        "hosts": hosts,
        "port": args.port,
        "api_keys": keys,
        "allowed_hosts": _list(args.allowed_hosts),
        "cors_origins": None if args.cors_origins is None else _list(args.cors_origins),
        "aliases": _list(args.alias),
        "tags": _list(args.tags),
        "n_slots": n_slots,
        "n_ctx_slot": _n_ctx_slot(args, n_slots),
        "context_shift": args.context_shift,
        "n_keep": args.n_keep,
        "n_predict": None if args.n_predict < 0 else args.n_predict,
        "sampling": given_sampling(args),
        "template_kwargs": _template_values(args),
        "log_format": args.log_format,
        "sleep_idle_seconds": args.sleep_idle_seconds if args.sleep_idle_seconds > 0 else None,
        "slot_save_path": _folder(args.slot_save_path),
        "has_slots": args.slots,
        "has_metrics": args.metrics,
        "has_prompts": args.verbose,
        "has_ui": args.ui,
    }


def _model(args: argparse.Namespace) -> str:
    if (args.model is None) == (args.model_flag is None):
        found = "none" if args.model is None else f"{args.model} and --model {args.model_flag}"
        raise UsageError(f"expected one model, found {found}")
    return str(args.model or args.model_flag)


def _model_options(args: argparse.Namespace) -> dict[str, Any]:
    options = model_options(args) | cache_options(args)
    return options | {
        "n_ctx": options["n_ctx"] or None,
        "chat_template": template_override(args),
        "n_batch": args.n_batch,
        "speculation": spec_options(args),
    }


def _n_ctx_slot(args: argparse.Namespace, n_slots: int) -> int | None:
    """llama-server divides the context where it is told how many slots there are."""
    unified = args.parallel in (None, -1) if args.kv_unified is None else args.kv_unified
    if unified or not args.n_ctx:
        return None
    if args.n_ctx < 2 * n_slots:
        raise UsageError(f"-c {args.n_ctx}: too few tokens for {n_slots} answers: give -c more or --kv-unified")
    return int(args.n_ctx // n_slots)


def _template_values(args: argparse.Namespace) -> dict[str, Any]:
    values = template_kwargs(args)
    return {"enable_thinking": args.reasoning != "off"} | values  # llama-server's auto tells templates that they may


def _folder(path: str | None) -> Path | None:
    if path is None:
        return None
    if not Path(path).is_dir():
        raise UsageError(f"--slot-save-path: expected a folder, found {path!r}")
    return Path(path)


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
