"""`chenxing cache`: shows what the cache folder holds, verifies and clears it."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from chenxing.errors import UsageError
from chenxing.hub.disk import human_bytes
from chenxing.terminal.cache_sections import SECTIONS, Entry, Section, kv_stores, remove_kv, sections

_HEADER = ("SECTION", "ENTRY", "SIZE", "LAST USE")
_DESCRIPTION = """\
What the cache folder holds: KV of prompts and answers, packed weights, compiled kernels, tables. All of it is
made again when it is needed. `verify` reads the KV of all or of the named models and counts what is damaged, which is
computed again; `clear kv MODEL` clears one model's.
"""


def add_parsers(subparsers: Any) -> None:
    """Adds the sub-parser of `cache`."""
    parser = subparsers.add_parser("cache", help="show or clear what is kept to start faster", description=_DESCRIPTION)
    add = parser.add_argument
    add(
        "action",
        nargs="?",
        choices=("show", "verify", "clear"),
        default="show",
        metavar="show|verify|clear",
        help="(show)",
    )
    names = [section.name for section in SECTIONS]
    help_names = f"{', '.join(names)} or all (all, when shown); after kv also models"
    add("names", nargs="*", metavar="SECTION|MODEL", help=help_names)
    add("--json", action="store_true", help="print a JSON list")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    names: list[str] = args.names
    if args.json and args.action != "show":
        raise UsageError(f"--json shows: it cannot be given with {args.action}")
    if args.action == "verify":
        return _verify(names[1:] if names[:1] == ["kv"] else names)
    if args.action == "clear" and names[:1] == ["kv"] and set(names[1:]) - _known_names():
        return _clear_models(names[1:])
    if unknown := [name for name in names if name not in _known_names()]:
        raise UsageError(f"chenxing cache: expected one of {_all_names()}, found {unknown[0]!r}")
    if args.action == "clear":
        if not names:
            raise UsageError("chenxing cache clear: name what to clear: " + _all_names())
        return _clear(sections(names))
    shown = [(section, section.show()) for section in sections(names or ["all"])]
    if args.json:
        _print_json(shown)
    else:
        _print_table(shown)
    return 0


def _all_names() -> str:
    return ", ".join([*(section.name for section in SECTIONS), "all"])


def _known_names() -> set[str]:
    return {"all", *(section.name for section in SECTIONS)}


def _kv_folder() -> Path:
    return next(section.folder for section in SECTIONS if section.name == "kv")


def _verify(models: list[str]) -> int:
    """Reads every page; 1 if any is not what was sealed."""
    from chenxing.kvcache import verify_store

    n_damaged = 0
    for store in kv_stores(_kv_folder(), models):
        found = verify_store(store.folder)
        n_damaged += found.n_damaged
        print(f"{store.name}: {found.n_sound} pages are sound, {found.n_damaged} damaged")
    return 1 if n_damaged else 0


def _clear_models(models: list[str]) -> int:
    freed, left = remove_kv(kv_stores(_kv_folder(), models))
    _say_freed("kv", freed, left)
    return 0


def _say_freed(name: str, freed: int, left: int) -> None:
    what = "model" if name == "kv" else "file"
    more = f"; {left} {what}{'s' * (left != 1)} could not be removed" if left else ""
    print(f"{name}: {human_bytes(freed)} freed{more}")


def _clear(chosen: list[Section]) -> int:
    for section in chosen:
        _say_freed(section.name, *section.clear())
    return 0


def _print_json(shown: list[tuple[Section, list[Entry]]]) -> None:
    import json

    rows = [
        {"section": section.name, "entry": entry.name, "bytes": entry.n_bytes, "last_use": round(entry.last_use)}
        | entry.more
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
