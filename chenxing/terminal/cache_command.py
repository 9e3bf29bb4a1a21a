"""`chenxing cache`: shows what the cache folder holds, and clears it."""

import argparse
import sys
import time
from typing import Any

from chenxing.hub.disk import human_bytes
from chenxing.terminal.cache_sections import SECTIONS, Entry, Section, sections

_HEADER = ("SECTION", "ENTRY", "SIZE", "LAST USE")
_DESCRIPTION = """\
What the cache folder holds: packed weights, compiled kernels, tables. All of it is made again when it is needed.
"""


def add_parsers(subparsers: Any) -> None:
    """Adds the sub-parser of `cache`."""
    parser = subparsers.add_parser("cache", help="show or clear what is kept to start faster", description=_DESCRIPTION)
    add = parser.add_argument
    add("action", nargs="?", choices=("show", "clear"), default="show", metavar="show|clear", help="what to do (show)")
    names = [section.name for section in SECTIONS]
    help_names = f"{', '.join(names)} or all (all, when shown)"
    add("sections", nargs="*", metavar="SECTION", help=help_names, type=_section_name)
    add("--json", action="store_true", help="print a JSON list")
    parser.set_defaults(run=run)


def _section_name(text: str) -> str:
    names = [*(section.name for section in SECTIONS), "all"]
    if text not in names:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(names)}, found {text!r}")
    return text


def run(args: argparse.Namespace) -> int:
    from chenxing.errors import UsageError

    if args.action == "clear":
        if args.json:
            raise UsageError("--json shows: it cannot be given with clear")
        if not args.sections:
            raise UsageError("chenxing cache clear: name what to clear: " + _all_names())
        return _clear(sections(args.sections))
    shown = [(section, section.show()) for section in sections(args.sections or ["all"])]
    if args.json:
        _print_json(shown)
    else:
        _print_table(shown)
    return 0


def _all_names() -> str:
    return ", ".join([*(section.name for section in SECTIONS), "all"])


def _clear(chosen: list[Section]) -> int:
    for section in chosen:
        freed, left = section.clear()
        more = f"; {left} file{'s' * (left != 1)} could not be removed" if left else ""
        print(f"{section.name}: {human_bytes(freed)} freed{more}")
    return 0


def _print_json(shown: list[tuple[Section, list[Entry]]]) -> None:
    import json

    rows = [
        {"section": section.name, "entry": entry.name, "bytes": entry.n_bytes, "last_use": round(entry.last_use)}
        for section, entries in shown
        for entry in entries
    ]
    print(json.dumps(rows, indent=2))


def _print_table(shown: list[tuple[Section, list[Entry]]]) -> None:
    """Aligned columns on a terminal; tabs for pipes."""
    now = time.time()
    rows = [_HEADER]
    for section, entries in shown:
        rows += [(section.name, e.name, human_bytes(e.n_bytes), age(now - e.last_use)) for e in entries]
    total = sum(entry.n_bytes for _, entries in shown for entry in entries)
    if not sys.stdout.isatty():
        print("\n".join("\t".join(row) for row in rows))
        return
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
    for name, entry, size, used in rows:
        print(f"{name:{widths[0]}}  {entry:{widths[1]}}  {size:>{widths[2]}}  {used}")
    print(f"{human_bytes(total)} in {shown[0][0].folder.parent}")


def age(seconds: float) -> str:
    """How long ago, in the largest unit that fits."""
    for unit, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        n = int(seconds // unit)
        if n >= 1:
            return f"{n} {name}{'s' * (n > 1)} ago"
    return "just now"
