"""The flags of `chenxing bench`, those of llama-bench, and the command itself."""

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from chenxing.errors import UsageError
from chenxing.terminal.args import add_weights_flag
from chenxing.terminal.numbers import at_least

if TYPE_CHECKING:
    from chenxing.terminal.progress import ProgressLine

_DESCRIPTION = """\
Measures a model as llama-bench does: pp512 is a prompt of 512 random tokens, tg128 128 tokens one by one from an
empty context, pp512 @ d4096 the prompt after 4096 tokens that are not timed. One warm-up, then the repetitions.
Flags that take a list (128,512) run every combination.

With --prompts, so many prompts of -p tokens come at once and are answered together, each with --new-tokens tokens:
tokens per second of all prompts, of all answers and of one stream, and when its tokens come.
"""
_EPILOG = """\
Figures are medians. GB/s is what single tokens read of weights and KV, plain read what the same threads read from a
buffer meanwhile, GMAC/s the multiply-adds of a prompt.
"""


def add_parsers(subparsers: Any) -> None:
    """Adds the sub-parser of `bench`."""
    summary = "measure how fast a model is here, as llama-bench does"
    parser = subparsers.add_parser("bench", help=summary, description=_DESCRIPTION, epilog=_EPILOG)
    add = parser.add_argument
    add("model", metavar="MODEL", help="as for chenxing run")
    add(
        *("-p", "--n-prompt", "--prompt-tokens"),
        dest="n_prompt",
        type=counts(0),
        default=[512],
        metavar="N,...",
        help="tokens of a prompt; 0: none (512)",
    )
    add("-n", "--n-gen", type=counts(0), default=[128], metavar="N,...", help="tokens one by one; 0: none (128)")
    add("-d", "--n-depth", type=counts(0), default=[0], metavar="N,...", help="tokens that stand before them (0)")
    help_threads = "threads (the physical cores that this process may use)"
    add("-t", "--threads", dest="n_threads", type=counts(1), metavar="N,...", help=help_threads)
    add("-r", "--repetitions", type=at_least(1), default=5, metavar="N", help="repetitions of each test (5)")
    add("--prompts", type=at_least(1), metavar="N", help="measure N answers at once")
    add("--new-tokens", type=at_least(1), default=128, metavar="N", help="tokens of each of them (128)")
    add_weights_flag(parser)
    add("-o", "--output", choices=("md", "json"), default="md", help="a Markdown table, or JSON (md)")
    parser.set_defaults(run=_handle)


def counts(least: int) -> Callable[[str], list[int]]:
    """Reads a comma list of numbers of `least` or more, for argparse."""
    read = at_least(least)
    return lambda text: [read(part) for part in text.split(",")]


def _handle(args: argparse.Namespace) -> int:
    from chenxing.config import settings
    from chenxing.cores import cores
    from chenxing.terminal.progress import ProgressLine

    progress = ProgressLine(sys.stderr)
    n_threads = args.n_threads or [settings().threads or cores().n_threads]
    try:
        if args.prompts:
            _streams(args, n_threads, progress)
        else:
            _tests(args, n_threads, progress)
    finally:
        progress.clear()
    return 0


def _tests(args: argparse.Namespace, n_threads: list[int], progress: "ProgressLine") -> None:
    from chenxing import hub
    from chenxing.gguf import open_gguf
    from chenxing.hub.describe import describe_file
    from chenxing.terminal.bench import plan, run_tests
    from chenxing.terminal.bench_report import table_head, table_row, to_json

    tests = plan(args.n_prompt, args.n_gen, args.n_depth)
    if not tests:
        raise UsageError("nothing to measure: expected -p or -n with a number above 0")
    gguf = open_gguf(hub.resolve(args.model, on_progress=progress.update))
    model = describe_file(gguf.path)
    results = run_tests(gguf, tests, n_threads, args.repetitions, progress.update, int8=args.weights == "int8")
    if args.output == "json":
        text = to_json(model, results)
        progress.clear()
        print(text)
        return
    first = next(results)
    progress.clear()
    print(*table_head(), table_row(model, first), sep="\n", flush=True)
    for result in results:
        print(table_row(model, result), flush=True)


def _streams(args: argparse.Namespace, n_threads: list[int], progress: "ProgressLine") -> None:
    from chenxing import hub
    from chenxing.gguf import open_gguf
    from chenxing.hub.describe import describe_file
    from chenxing.terminal.bench_streams import MAX_STREAMS, Streams, run_streams
    from chenxing.terminal.bench_streams_report import streams_head, streams_json, streams_row

    if args.prompts > MAX_STREAMS or 0 in args.n_prompt or args.n_depth != [0]:
        raise UsageError(f"--prompts: expected at most {MAX_STREAMS}, -p above 0 and no -d")
    gguf = open_gguf(hub.resolve(args.model, on_progress=progress.update))
    model = describe_file(gguf.path)
    streams = [Streams(args.prompts, n, args.new_tokens) for n in args.n_prompt]
    results = run_streams(gguf, streams, n_threads, args.repetitions, progress.update, int8=args.weights == "int8")
    if args.output == "json":
        text = streams_json(model, results)
        progress.clear()
        print(text)
        return
    first = next(results)
    progress.clear()
    print(*streams_head(), streams_row(model, first), sep="\n", flush=True)
    for result in results:
        print(streams_row(model, result), flush=True)
