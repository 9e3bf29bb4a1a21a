"""Cutting text into words by a pre-tokenizer's rules, and remembering what words became.

Source  llama.cpp b11434, src/unicode.cpp: unicode_regex_split
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from chenxing.tokenizer import classes
from chenxing.tokenizer.pretokenizers import Cut

_MAX_WORDS = 1 << 16
_MAX_WORD_CHARACTERS = 64  # longer words hardly come again

# categories inside brackets, as llama.cpp spells them for its collapsed text
_CATEGORIES = {
    "L": f"A-Za-z{chr(classes.LETTER)}{chr(classes.HAN_LETTER)}",
    "U": f"A-Z{chr(classes.LETTER)}{chr(classes.HAN_LETTER)}",
    "W": f"a-z{chr(classes.LETTER)}{chr(classes.HAN_LETTER)}",
    "X": f"A-Za-z{chr(classes.LETTER)}",
    "H": f"{chr(classes.HAN_LETTER)}{chr(classes.HAN_UNASSIGNED)}",
    "J": chr(classes.JOINER),
    "N": f"0-9{chr(classes.NUMBER)}",
    "M": chr(classes.MARK),
    "P": rf"!-#%-*,-/:-;?-@\[-\]_\{{\}}{chr(classes.PUNCTUATION)}",
    "S": rf"\$\+<->\^`\|~{chr(classes.SYMBOL)}",
}
_NUMBERS = re.compile(b"[0-9%c]+" % classes.NUMBER)
_ASCII_DIGITS = re.compile(b"[0-9]+")
_NEWLINES = re.compile(b"\n+")
_SPACES = b" \t\n\r\f\v"


class WordSplitter:
    """The rules of one pre-tokenizer, compiled."""

    def __init__(self, rules: Iterable[str | Cut]) -> None:
        self._rules = [_CUTS[rule] if isinstance(rule, Cut) else _Expression(rule) for rule in rules]

    def split(self, text: str) -> list[str]:
        """text in words, nothing left out."""
        cuts = [0, len(text)]
        subjects: dict[bool, str | bytes] = {}
        for rule in self._rules:
            is_plain = isinstance(rule, _Expression) and rule.is_plain
            if is_plain not in subjects:
                subjects[is_plain] = classes.plain_spaces(text) if is_plain else classes.collapse(text)
            cuts = rule(subjects[is_plain], cuts)
        return [text[start:stop] for start, stop in pairwise(cuts) if start < stop]


class _Expression:
    """Cuts pieces into matches and what is between them.

    is_plain  it knows no categories and is matched on text, else on bytes for classes
    """

    def __init__(self, rule: str) -> None:
        self.is_plain = r"\p{" not in rule
        self._expression = re.compile(rule, re.ASCII) if self.is_plain else re.compile(_on_classes(rule))
        # without looking ahead, a piece holds a match only where a match on the whole text touches it
        self._is_local = "(?!" not in rule

    def __call__(self, subject: Any, cuts: list[int]) -> list[int]:
        """The finer cuts."""
        if not self._is_local or len(cuts) == 2:
            return self._cut_all(subject, cuts)
        finer, done = cuts[:1], 0  # pieces before cuts[done] are done
        for match in self._expression.finditer(subject):
            first, last = match.span()
            start = max(done, bisect_right(cuts, first, done) - 1)
            stop = bisect_left(cuts, last, start)
            if start < stop:
                finer += cuts[done + 1 : start + 1]
                finer += self._cut_all(subject, cuts[start : stop + 1])[1:]
                done = stop
        return finer + cuts[done + 1 :]

    def _cut_all(self, subject: Any, cuts: list[int]) -> list[int]:
        find, finer = self._expression.finditer, [cuts[0]]
        for start, stop in pairwise(cuts):
            previous = start
            for match in find(subject, start, stop):
                first, last = match.span()
                if first > previous:
                    finer.append(first)
                finer.append(last)
                previous = last
            finer.append(stop)
        return finer


def _on_classes(rule: str) -> bytes:
    for name, characters in _CATEGORIES.items():
        rule = rule.replace(rf"\p{{{name}}}", characters)
    assert r"\p{" not in rule, rule
    return rule.encode("latin-1")


def _digits_from_right(subject: Any, cuts: list[int]) -> list[int]:
    finer = list(cuts)
    for start, stop in pairwise(cuts):
        for match in _NUMBERS.finditer(subject, start, stop):
            first, last = match.span()
            finer += range(first + ((last - first) % 3 or 3), last + 1, 3)
    return sorted(finer)


def _ascii_digits_from_right(subject: Any, cuts: list[int]) -> list[int]:
    finer = list(cuts)
    for start, stop in pairwise(cuts):
        for match in _ASCII_DIGITS.finditer(subject, start, stop):
            first, last = match.span()
            finer += range(first + (last - first) % 3, last, 3)
    return sorted(finer)


def _trailing_space(subject: Any, cuts: list[int]) -> list[int]:
    finer = list(cuts)
    for start, stop in pairwise(cuts):
        if start < stop and subject[stop - 1] in _SPACES:
            finer.append(start + len(subject[start:stop].rstrip(_SPACES)))
    return sorted(finer)


def _newlines(subject: Any, cuts: list[int]) -> list[int]:
    return sorted({*cuts, *(place for match in _NEWLINES.finditer(subject) for place in match.span())})


_CUTS: dict[Cut, Callable[[Any, list[int]], list[int]]] = {
    Cut.DIGITS_FROM_RIGHT: _digits_from_right,
    Cut.ASCII_DIGITS_FROM_RIGHT: _ascii_digits_from_right,
    Cut.TRAILING_SPACE: _trailing_space,
    Cut.NEWLINES: _newlines,
}


class WordCache:
    """Ids of words that were seen; forgotten all at once when there are too many."""

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self._encode = encode
        self._ids: dict[str, list[int]] = {}

    def encode(self, words: Iterable[str]) -> list[int]:
        """The ids of all words, in order."""
        known, ids = self._ids.get, []
        for word in words:
            found = known(word)
            if found is None:
                found = self._encode(word)
                if len(word) <= _MAX_WORD_CHARACTERS:
                    if len(self._ids) >= _MAX_WORDS:
                        self._ids.clear()
                    self._ids[word] = found
            ids += found
        return ids
