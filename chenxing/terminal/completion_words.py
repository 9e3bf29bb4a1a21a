"""What can be completed: commands, their flags and the words that may follow, read from the parsers."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from chenxing.hub.builtin import BUILTIN_MODELS

_MODEL, _FILES = ("MODEL", "SECTION|MODEL"), ("FILE", "FOLDER")


@dataclass(frozen=True)
class Flag:
    """names   all spellings, as in ("-n", "--predict")
    takes_value, values   whether a word follows, and the words it can be; none: any
    """

    names: tuple[str, ...]
    help: str
    takes_value: bool
    values: tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """words: what may stand where no flag does, beside names of files where takes_files."""

    name: str
    help: str
    flags: tuple[Flag, ...]
    words: tuple[str, ...]
    takes_files: bool


def read_commands(parsers: Mapping[str, argparse.ArgumentParser]) -> list[Command]:
    """In the parsers' order. The first sentence of a parser's description is its help."""
    return [_command(name, parser) for name, parser in parsers.items()]


def _command(name: str, parser: argparse.ArgumentParser) -> Command:
    flags = [_flag(action) for action in parser._actions if action.option_strings]
    places = [action for action in parser._actions if not action.option_strings]
    words = [word for action in places for word in _words(action)]
    takes_files = any(action.metavar in (*_MODEL, *_FILES) for action in places)
    return Command(name, _first_sentence(parser.description or ""), tuple(flags), tuple(words), takes_files)


def _flag(action: argparse.Action) -> Flag:
    text = "" if action.help in (None, argparse.SUPPRESS) else str(action.help)
    return Flag(
        tuple(action.option_strings), text.replace("%%", "%"), action.nargs != 0, tuple(map(str, action.choices or ()))
    )


def _words(action: argparse.Action) -> tuple[str, ...]:
    if action.choices:
        return tuple(map(str, action.choices))
    return tuple(BUILTIN_MODELS) if action.metavar in _MODEL else ()


def _first_sentence(text: str) -> str:
    return " ".join(text.split()).partition(". ")[0].rstrip(".:")
