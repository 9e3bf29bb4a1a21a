"""The flags that say what form an answer has: llama.cpp's names."""

import argparse
from typing import Any

from chenxing.errors import UsageError
from chenxing.terminal.inputs import read_text_file

_FLAGS = {
    "grammar": "--grammar",
    "grammar_file": "--grammar-file",
    "json_schema": "--json-schema",
    "json_schema_file": "--json-schema-file",
}


def add_grammar_flags(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add("--grammar", metavar="GBNF", help="the answer is a text of this grammar, in llama.cpp's notation")
    add("--grammar-file", metavar="FILE", help="the same from a file")
    add("-j", "--json-schema", metavar="SCHEMA", help="the answer is JSON that this schema validates; {}: any JSON")
    add("-jf", "--json-schema-file", metavar="FILE", help="the same from a file")


def given_grammar(args: argparse.Namespace) -> dict[str, Any]:
    """What LLM.stream is to be told; nothing if no flag is given.

    Checks everything that does not depend on a model. Raises UsageError, ChenxingError for a file.
    """
    given = [name for name in _FLAGS if getattr(args, name) is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(_FLAGS[name] for name in given)} exclude each other: an answer has one form")
    if not given:
        return {}
    from chenxing.sampling.gbnf import parse_gbnf
    from chenxing.sampling.json_schema import compile_schema

    text = getattr(args, given[0])
    if given[0].endswith("_file"):
        text = read_text_file(text)
    if given[0].startswith("grammar"):
        parse_gbnf(text)
        return {"grammar": text}
    compile_schema(text)
    return {"json_schema": text}
