"""`chenxing selfcheck`: whether what is promised holds on this machine, one line for each promise."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chenxing.terminal.numbers import one_or_more

if TYPE_CHECKING:
    from chenxing.terminal.progress import ProgressLine
    from chenxing.terminal.selfcheck_checks import Verdict
    from chenxing.terminal.selfcheck_subject import Subject

DEFAULT_MODEL = "smollm2"
_DESCRIPTION = """\
Compares, bit by bit, what a model computes in different ways on this machine: twice, on one thread and on all, whole
and in pieces, alone and among others, from the cache and cold, with every instruction set. Nothing is read from or
written to your prompt cache.
"""
_EPILOG = "Exit code: 0 if everything holds, 1 if something does not."


def add_parsers(subparsers: Any) -> None:
    """Adds the sub-parser of `selfcheck`."""
    summary = "check that the same bits come out here, whatever the way"
    parser = subparsers.add_parser("selfcheck", help=summary, description=_DESCRIPTION, epilog=_EPILOG)
    add = parser.add_argument
    what = f"as for chenxing run; by default {DEFAULT_MODEL} if it is pulled, else a tiny one with random weights"
    add("model", nargs="?", metavar="MODEL", help=what)
    help_threads = "threads; -1: the physical cores that this process may use (-1)"
    add("-t", "--threads", dest="n_threads", type=one_or_more, metavar="N", help=help_threads)
    help_isas = "compile kernels for this CPU's other instruction sets too: half a minute for each"
    add("--all-isas", action="store_true", help=help_isas)
    add("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=_handle)


def _handle(args: argparse.Namespace) -> int:
    import tempfile

    from chenxing.terminal.progress import ProgressLine
    from chenxing.terminal.selfcheck_checks import CHECKS, judge

    progress = ProgressLine(sys.stderr)
    # what is mapped cannot be removed on Windows
    with tempfile.TemporaryDirectory(prefix="chenxing-selfcheck-", ignore_cleanup_errors=True) as folder:
        try:
            subject = _subject(args, Path(folder), progress)
        finally:
            progress.clear()
        name = "a tiny model with random weights" if subject.is_toy else subject.gguf.path.name
        facts = {"model": name, "n_threads": subject.n_threads, "isa": subject.library.isa.name}
        if not args.json:
            print(f"{name}, {subject.n_threads} threads, {subject.library.isa.name}", flush=True)
        verdicts = []
        for title, check in CHECKS.items():
            verdicts.append(judge(title, check, subject))
            progress.clear()
            if not args.json:
                print(_line(verdicts[-1]), flush=True)
    if args.json:
        _print_json(facts, verdicts)
    else:
        print(_summary(verdicts))
    return 1 if any(verdict.passed is False for verdict in verdicts) else 0


def _subject(args: argparse.Namespace, folder: Path, progress: "ProgressLine") -> "Subject":
    """The model to check. Raises ChenxingError if it cannot be opened."""
    from chenxing import hub
    from chenxing.config import settings
    from chenxing.cores import cores
    from chenxing.errors import ModelNotFoundError
    from chenxing.gguf import open_gguf
    from chenxing.hub.library import locate
    from chenxing.kernels.library import KernelLibrary
    from chenxing.terminal.selfcheck_subject import Subject
    from chenxing.terminal.selfcheck_toy import write_toy
    from chenxing.tokenizer import load_tokenizer

    is_toy = False
    if args.model:
        path = hub.resolve(args.model, on_progress=progress.update)
    else:
        try:
            path = locate(DEFAULT_MODEL)[0]
        except ModelNotFoundError:
            path, is_toy = write_toy(folder / "toy.gguf"), True
    gguf = open_gguf(path)
    n_threads = args.n_threads or settings().threads or cores().n_threads
    tokenizer, library = load_tokenizer(gguf), KernelLibrary()
    return Subject(gguf, tokenizer, n_threads, folder, library, is_toy, args.all_isas, progress.update)


def _line(verdict: "Verdict") -> str:
    mark = {True: "✓", False: "✗", None: "–"}[verdict.passed]
    return f"{mark} {verdict.title:28} {verdict.seconds:5.1f} s  {verdict.text}"


def _summary(verdicts: "list[Verdict]") -> str:
    n_failed, n_passed = (sum(v.passed is passed for v in verdicts) for passed in (False, True))
    seconds = sum(v.seconds for v in verdicts)
    if n_failed:
        text = f"{n_failed} of {len(verdicts)} checks failed, {seconds:.1f} s."
        return f"{text} Please report this with what `chenxing doctor` says."
    text = (
        "Everything holds here"
        if n_passed == len(verdicts)
        else f"{n_passed} of {len(verdicts)} checks were made, all hold"
    )
    return f"{text}, {seconds:.1f} s."


def _print_json(facts: dict[str, Any], verdicts: "list[Verdict]") -> None:
    import json
    from dataclasses import asdict

    checks = [asdict(verdict) for verdict in verdicts]
    print(json.dumps({**facts, "passed": all(v.passed is not False for v in verdicts), "checks": checks}, indent=2))
