"""Races chenxing against llama.cpp: python -m benchmarks --peer FOLDER [--quick] [QUESTION ...]"""

import argparse
import os
import shlex
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.machine import describe_machine, describe_peer
from benchmarks.models import NAMES, open_model
from benchmarks.questions import QUESTIONS
from benchmarks.race import Race, missing, now
from chenxing.cores import cores

_HERE = Path(__file__).parent


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("questions", nargs="*", metavar="QUESTION", help=f"of {', '.join(QUESTIONS)} (all)")
    add("--peer", type=Path, default=os.environ.get("CHENXING_PEER"), help="folder of llama.cpp's programs")
    add("--peer-name", default="unnamed build", help="how the report calls it, such as a version")
    add("--models", default=",".join(NAMES), help="comma list (all)")
    add("--synthetic", type=Path, metavar="FOLDER", help="where the synthetic models are or go (the cache)")
    add("-t", "--threads", default=_all_threads(), help="comma list (1 and all physical cores)")
    add("--rounds", type=int, default=3, help="times that both run in turn (3)")
    add("-r", "--repetitions", type=int, default=2, help="of a test in each run (2)")
    add("--quick", action="store_true", help="one round, one repetition, two models: to see that everything runs")
    add("--wrap", default="", metavar="COMMAND", help="put before each measured command: waits for silence, say")
    add("--results", type=Path, default=_HERE / "results", help="folder of the JSON files")
    add("--write", type=Path, metavar="DOCUMENT", help="put the figures into a document, such as docs/PERFORMANCE.md")
    return parser


def _all_threads() -> str:
    return ",".join(str(n) for n in sorted({1, cores().n_threads}))


def _check(what: str, names: Sequence[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise SystemExit(f"unknown {what} {name}: expected one of {', '.join(known)}")


def main() -> int:
    args = _parser().parse_args()
    wanted = args.questions or list(QUESTIONS)
    names = ["Q4_K_M", "smollm2"] if args.quick else args.models.split(",")
    _check("question", wanted, QUESTIONS)
    _check("model", names, NAMES)
    without = missing(args.peer)
    if without:
        print(f"{without}; measuring chenxing alone", file=sys.stderr)
    models = [open_model(name, args.synthetic) for name in names]
    threads = [int(n) for n in args.threads.split(",")]
    n_rounds, n_repetitions = (1, 1) if args.quick else (args.rounds, args.repetitions)
    race = Race(None if without else args.peer, n_rounds, n_repetitions, shlex.split(args.wrap), args.quick)
    setting = [*describe_machine(), without or describe_peer(args.peer, args.peer_name)]
    setting.append(f"Measured {now()}: {n_rounds} rounds in turn, {n_repetitions} repetitions in each")
    for name in wanted:
        question = QUESTIONS[name]
        answers = []
        for answer in question.ask(models, threads, race):
            answers.append(answer)
            print(f"{name}: {'  '.join(f'{k} {v}' for k, v in answer.cells.items() if v)}", file=sys.stderr, flush=True)
        if answers:
            report.save(args.results, name, question.TITLE, question.NOTE, setting, answers)
    print(report.markdown(args.results, wanted))
    if args.write:
        report.put_figures(args.write, report.markdown(args.results, list(QUESTIONS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
