"""GBNF, llama.cpp's grammars, read into a small tree.

Source: llama.cpp b11434, grammars/README.md and src/llama-grammar.cpp: llama_grammar_parser (what it accepts).
"""

import re
from dataclasses import dataclass

from chenxing.errors import GrammarError
from chenxing.sampling.limits import checked_text

_LAST = 0x10FFFF
_MOST_REPEATS = 2000  # llama.cpp's own limit
_MOST_NESTED = 100

_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "[": "[", "]": "]"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_HEX = re.compile(r"[0-9A-Fa-f]+")
_NAME = re.compile(r"[A-Za-z0-9-]+")
_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_SPACE_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_TIMES = re.compile(r"\{[ \t\r\n]*(\d+)[ \t\r\n]*(,?)[ \t\r\n]*(\d*)[ \t\r\n]*\}")


@dataclass(frozen=True)
class Chars:
    """One code point: ranges are ascending, do not touch, and include both ends."""

    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Sequence:
    items: tuple["Node", ...]


@dataclass(frozen=True)
class Choice:
    options: tuple["Node", ...]


@dataclass(frozen=True)
class Repeat:
    """item, least to most times; most None: without limit."""

    item: "Node"
    least: int
    most: int | None


@dataclass(frozen=True)
class Reference:
    name: str


Node = Chars | Sequence | Choice | Repeat | Reference
Rules = dict[str, Node]


def parse_gbnf(text: str) -> Rules:
    """The rules of a grammar: `root`, and all that are referred to. Raises GrammarError with line:column."""
    return _Parser(checked_text("grammar", text)).rules()


class _Parser:
    """A recursive descent; `at` is the place of the next character."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0
        self._references: dict[str, int] = {}  # where each name is first referred to

    def rules(self) -> Rules:
        rules: Rules = {}
        self._skip(_SPACE_AND_LINES)
        while self._at < len(self._text):
            place = self._at
            name = self._name("the name of a rule")
            if name in rules:
                raise self._error(f"rule {name} is defined twice", place)
            self._skip(_SPACE)
            self._expect("::=")
            self._skip(_SPACE_AND_LINES)
            rules[name] = self._choice(nested=False)
            if self._at < len(self._text) and self._text[self._at] not in "\r\n":
                raise self._error(f"expected the end of the line, found {self._shown()}")
            self._skip(_SPACE_AND_LINES)
        for name, place in self._references.items():
            if name not in rules:
                raise self._error(f"rule {name} is not defined", place)
        if "root" not in rules:
            raise self._error("expected a rule named root, found none")
        return rules

    def _choice(self, *, nested: bool) -> Node:
        options = [self._sequence(nested=nested)]
        while self._text.startswith("|", self._at):
            self._at += 1
            self._skip(_SPACE_AND_LINES)
            options.append(self._sequence(nested=nested))
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self, *, nested: bool) -> Node:
        space = _SPACE_AND_LINES if nested else _SPACE
        items: list[Node] = []
        self._skip(space)
        while (item := self._item()) is not None:
            self._skip(space)
            items.append(self._repeated(item))
            self._skip(space)
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _item(self) -> Node | None:
        """The next item without its repetition; None where the sequence ends."""
        match self._text[self._at : self._at + 1]:
            case '"':
                return self._literal()
            case "[":
                return self._class()
            case "(":
                return self._group()
            case ".":
                self._at += 1
                return Chars(((0, _LAST),))
            case "<" | "!":
                raise self._error("not supported: tokens in angle brackets; write their text")
            case first if _NAME.match(first):
                place = self._at
                name = self._name("a name")
                self._references.setdefault(name, place)
                return Reference(name)
        return None

    def _group(self) -> Node:
        self._at += 1
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise self._error(f"expected at most {_MOST_NESTED} nested parentheses, found more")
        node = self._choice(nested=True)
        self._expect(")")
        self._depth -= 1
        return node

    def _repeated(self, item: Node) -> Node:
        match self._text[self._at : self._at + 1]:
            case "*":
                self._at += 1
                return Repeat(item, 0, None)
            case "+":
                self._at += 1
                return Repeat(item, 1, None)
            case "?":
                self._at += 1
                return Repeat(item, 0, 1)
            case "{":
                return self._times(item)
        return item

    def _times(self, item: Node) -> Node:
        place, match = self._at, _TIMES.match(self._text, self._at)
        if not match or (match[3] and not match[2]):
            raise self._error(f"expected {{n}}, {{n,}} or {{n,m}}, found {self._shown()}")
        least = int(match[1])
        most = int(match[3]) if match[3] else None if match[2] else least
        if max(least, most or 0) > _MOST_REPEATS:
            raise self._error(f"expected at most {_MOST_REPEATS} repetitions, found {match[0]}", place)
        if most is not None and most < least:
            raise self._error(f"expected a range of repetitions that ascends, found {match[0]}", place)
        self._at = match.end()
        return Repeat(item, least, most)

    def _literal(self) -> Node:
        self._at += 1
        items = []
        while not self._text.startswith('"', self._at):
            code = self._code_point("a closing quote")
            items.append(Chars(((code, code),)))
        self._at += 1
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _class(self) -> Node:
        start = self._at
        self._at += 1
        negated = self._text.startswith("^", self._at)
        self._at += negated
        ranges = []
        while not self._text.startswith("]", self._at):
            place = self._at
            first = last = self._code_point("a closing bracket")
            if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
                self._at += 1
                last = self._code_point("the end of a range")
            if last < first:
                raise self._error("expected a range that ascends", place)
            ranges.append((first, last))
        self._at += 1
        merged = _complement(_merged(ranges)) if negated else _merged(ranges)
        if not merged:
            raise self._error("expected a class that some character belongs to", start)
        return Chars(merged)

    def _code_point(self, expected: str) -> int:
        """The next character of a literal or a class, its escape read."""
        place, character = self._at, self._text[self._at : self._at + 1]
        if not character:
            raise self._error(f"expected {expected}, found the end of the grammar")
        self._at += 1
        if character != "\\":
            return ord(character)
        kind = self._text[self._at : self._at + 1]
        self._at += 1
        if kind in _HEX_DIGITS:
            digits = self._text[self._at : self._at + _HEX_DIGITS[kind]]
            self._at += _HEX_DIGITS[kind]
            if _HEX.fullmatch(digits) and len(digits) == _HEX_DIGITS[kind] and int(digits, 16) <= _LAST:
                return int(digits, 16)
        elif kind in _ESCAPES:
            return ord(_ESCAPES[kind])
        raise self._error(f"unknown escape {self._text[place : self._at]!r}", place)

    def _name(self, expected: str) -> str:
        match = _NAME.match(self._text, self._at)
        if not match:
            raise self._error(f"expected {expected}, found {self._shown()}")
        self._at = match.end()
        return match[0]

    def _expect(self, sign: str) -> None:
        if not self._text.startswith(sign, self._at):
            raise self._error(f"expected {sign!r}, found {self._shown()}")
        self._at += len(sign)

    def _skip(self, space: re.Pattern[str]) -> None:
        match = space.match(self._text, self._at)
        assert match
        self._at = match.end()

    def _shown(self) -> str:
        line = self._text[self._at : self._at + 12].partition("\n")[0]
        return repr(line) if line else "the end of the line" if self._at < len(self._text) else "the end of the grammar"

    def _error(self, what: str, place: int | None = None) -> GrammarError:
        at = self._at if place is None else place
        line = self._text.count("\n", 0, at) + 1
        column = at - (self._text.rfind("\n", 0, at) + 1) + 1
        return GrammarError(f"grammar: {line}:{column}: {what}")


def _merged(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return tuple(merged)


def _complement(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    starts = [0, *(last + 1 for _, last in ranges)]
    ends = [*(first - 1 for first, _ in ranges), _LAST]
    return tuple((first, last) for first, last in zip(starts, ends, strict=True) if first <= last)
