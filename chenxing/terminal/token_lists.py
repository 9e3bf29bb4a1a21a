"""What the tools read from stdin: JSON strings, one a line, and JSON lists of token ids."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from chenxing.errors import ChenxingError, TokenizerError


def read_json_lines(source: Iterable[bytes]) -> Iterator[bytes]:
    """The text of each line's JSON string, as UTF-8; U+DC80..U+DCFF stand for bytes that are none (PEP 383).

    Raises ChenxingError that names the line that is no JSON string. Empty lines are passed over.
    """
    for number, line in enumerate(source, 1):
        if not line.strip():
            continue
        value = _parse(line, f"line {number}", "a JSON string")
        if not isinstance(value, str):
            raise ChenxingError(f"standard input, line {number}: expected a JSON string, found {_shown(value)}")
        try:
            yield value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            found = f"U+{ord(value[error.start]):04X} alone"
            raise ChenxingError(f"standard input, line {number}: expected paired surrogates, found {found}") from error


def read_id_lists(source: BinaryIO, n_vocab: int) -> Iterator[list[int]]:
    """The JSON lists of `source`: one a line, or one over many lines.

    Raises ChenxingError for what is no list of integers, TokenizerError for ids outside of 0..n_vocab-1.
    """
    first = source.readline()
    rest: Iterable[bytes] = source
    if not _is_json(first):  # one list over many lines
        first, rest = first + source.read(), ()
    for number, line in enumerate(_chain(first, rest), 1):
        if line.strip():
            yield _ids(_parse(line, f"line {number}", "a JSON list of token ids"), number, n_vocab)


def _chain(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _parse(line: bytes, where: str, expected: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ChenxingError(f"standard input, {where}: expected {expected}, found {_shown(line)} ({error})") from None


def _ids(value: Any, number: int, n_vocab: int) -> list[int]:
    if not isinstance(value, list):
        raise ChenxingError(f"standard input, line {number}: expected a JSON list of token ids, found {_shown(value)}")
    for token_id in value:
        if type(token_id) is not int:
            raise ChenxingError(f"standard input, line {number}: expected token ids, found {_shown(token_id)}")
        if not 0 <= token_id < n_vocab:
            raise TokenizerError(
                f"standard input, line {number}: expected ids from 0 to {n_vocab - 1}, found {token_id}"
            )
    return value


def _shown(value: Any) -> str:
    text = value.decode("utf-8", "replace").strip() if isinstance(value, bytes) else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "…"
