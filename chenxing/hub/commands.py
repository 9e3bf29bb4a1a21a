"""`chenxing pull | list | show | rm`: tables and bars on a terminal, plain lines for pipes, JSON for programs."""

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chenxing.config import settings
from chenxing.hub import library, report
from chenxing.hub.builtin import BUILTIN_MODELS
from chenxing.hub.describe import describe_file
from chenxing.hub.disk import human_bytes
from chenxing.hub.progress import Progress
from chenxing.hub.store import PulledModel

_MODEL_HELP = "hf:owner/repo[:QUANT or file], or a built-in name: " + ", ".join(BUILTIN_MODELS)


def add_parsers(subparsers: Any) -> None:
    """Registers the sub-commands; each sets `run`, a function from its parsed arguments to the exit code.

    subparsers  what `ArgumentParser.add_subparsers` returned
    """
    pull = subparsers.add_parser("pull", help="download a model, or bring it up to date")
    pull.add_argument("models", nargs="+", metavar="MODEL", help=_MODEL_HELP)
    pull.set_defaults(run=run_pull)

    listing = subparsers.add_parser("list", aliases=["ls"], help="show the models on this machine")
    listing.add_argument("--json", action="store_true", help="print a JSON list")
    listing.set_defaults(run=run_list)

    show = subparsers.add_parser(
        "show", help="show what a model is: architecture, quant mix, context, licence, template"
    )
    show.add_argument("model", metavar="MODEL", help="a path or the name of a pulled model")
    show.add_argument("--json", action="store_true", help="print a JSON object")
    show.set_defaults(run=run_show)

    remove = subparsers.add_parser("rm", help="delete pulled models")
    remove.add_argument("models", nargs="+", metavar="MODEL", help="names as `chenxing list` shows them")
    remove.set_defaults(run=run_rm)


def run_pull(args: argparse.Namespace) -> int:
    for spec in args.models:
        with _progress_bar(spec) as (on_progress, stages):
            model = library.pull(spec, on_progress=on_progress)
        verb = "pulled" if "download" in stages else "up to date:"
        print(f"{verb} {model.name} ({human_bytes(model.n_bytes)}): {model.path}")
    return 0


def run_list(args: argparse.Namespace) -> int:
    models = library.list_models()
    if args.json:
        print(json.dumps([report.list_entry(model) for model in models], indent=2))
    elif not sys.stdout.isatty():
        print("\n".join("\t".join(row) for row in (report.LIST_HEADER, *map(report.list_row, models))))
    else:
        _print_list(models)
    return 0


def run_show(args: argparse.Namespace) -> int:
    path, model = library.locate(args.model)
    facts = describe_file(path)
    if args.json:
        print(json.dumps(report.show_entry(facts, model), indent=2))
        return 0
    lines = report.show_lines(facts, model)
    if not sys.stdout.isatty():
        print("\n".join(f"{key}: {value}" for key, value in lines))
        return 0
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    for key, value in lines:
        grid.add_row(Text(key, style="bold"), Text(value))
    _console().print(grid)
    return 0


def run_rm(args: argparse.Namespace) -> int:
    for spec in args.models:
        model, freed = library.remove(spec)
        print(f"removed {model.name}, {human_bytes(freed)} freed")
        if model.files[0].is_borrowed:
            print(f"its file stays in the Hugging Face cache, which other programs use: {model.path}")
    return 0


def _print_list(models: list[PulledModel]) -> None:
    from rich.table import Table
    from rich.text import Text

    console = _console()
    if models:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for heading in report.LIST_HEADER:
            table.add_column(heading, justify="right" if heading in ("SIZE", "CONTEXT") else "left")
        for model in models:
            table.add_row(*map(Text, report.list_row(model)))
        console.print(table)
    names = {model.name for model in models}
    for builtin in BUILTIN_MODELS.values():
        if builtin.name not in names:
            hint = f"not pulled: {builtin.name} ({builtin.title}), {human_bytes(builtin.n_bytes)}"
            console.print(Text(hint, style="dim"))


@contextmanager
def _progress_bar(title: str) -> Iterator[tuple[Progress, set[str]]]:
    """A callback that draws one bar for each stage on stderr if that is a terminal, and the stages it has seen."""
    stages: set[str] = set()
    if not sys.stderr.isatty():
        yield lambda stage, _: stages.add(stage), stages
        return
    from rich import progress as rich_progress

    columns = (
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        rich_progress.TaskProgressColumn(),
        rich_progress.TimeRemainingColumn(),
    )
    bars: dict[str, Any] = {}
    with rich_progress.Progress(*columns, console=_console(stderr=True), transient=True) as progress:

        def on_progress(stage: str, fraction: float) -> None:
            stages.add(stage)
            if stage not in bars:
                bars[stage] = progress.add_task(f"{stage} {title}", total=1.0)
            progress.update(bars[stage], completed=fraction)

        yield on_progress, stages


def _console(stderr: bool = False) -> Any:
    from rich.console import Console

    return Console(stderr=stderr, no_color=settings().no_color, highlight=False)
