"""Which character classes of a recursive grammar may be read as runs, [^"]+ in one lexeme, with the same language.

A lexer always takes the longest lexeme. So a run of the class C in (C | ...)* is right if wherever it may stand

- no other class that may stand at the same place has a character of C: then nothing else could have begun, and nothing
  that follows the run could have been meant to take its last characters; and
- it is followed by itself through its own loop only: in (C+){2} one run would swallow both.

"May stand at the same place" is computed on Glushkov's positions (Glushkov 1961), each class of the grammar being one,
with rules taken without their stack: what comes out is too large, never too small, so a doubt costs speed only.
"""

from collections.abc import Iterator
from typing import NamedTuple

from chenxing.sampling.gbnf import Chars, Choice, Node, Reference, Repeat, Rules, Sequence

_MOST_POSITIONS = 400
_MOST_PAIRS = 100_000

Positions = frozenset[int]  # of Chars objects, by identity: the parser makes one for each place in the grammar
_NONE: Positions = frozenset()


class _Ends(NamedTuple):
    """What a part of a grammar begins and ends with, and whether it may be empty."""

    first: Positions
    last: Positions
    empty: bool


def run_candidates(loop: Repeat) -> list[Chars]:
    """The classes that are a whole turn of an unlimited loop: C in C*, C+, (C | ...)*."""
    if loop.most is not None or loop.least > 1:
        return []
    options = loop.item.options if isinstance(loop.item, Choice) else (loop.item,)
    return [option for option in options if isinstance(option, Chars)]


def safe_runs(rules: Rules) -> set[int]:
    """The identities of the classes that may be read as runs."""
    nodes = [node for rule in rules.values() for node in _all(rule)]
    classes = {id(node): node for node in nodes if isinstance(node, Chars)}
    candidates = {id(c) for node in nodes if isinstance(node, Repeat) for c in run_candidates(node)}
    if not candidates or len(classes) > _MOST_POSITIONS:
        return set()
    analysis = _Analysis(rules)
    follow = analysis.follow(set(classes))
    rivals = _rivals(classes, analysis.ends(rules["root"]).first, follow, candidates)
    return set() if rivals is None else candidates - rivals - analysis.followed_by_themselves


def _rivals(
    classes: dict[int, Chars], start: Positions, follow: dict[int, set[int]], candidates: set[int]
) -> set[int] | None:
    """Candidates that share a place and a character with another class; None if there are too many pairs to tell."""
    pairs = [(p, q) for p in start for q in start]
    seen = set(pairs)
    rivals = set()
    while pairs:
        p, q = pairs.pop()
        if not _overlap(classes[p], classes[q]):
            continue
        if p != q:
            rivals |= {p, q} & candidates
        new = {(a, b) for a in follow[p] for b in follow[q]} - seen
        seen |= new
        pairs += new
        if len(seen) > _MOST_PAIRS:
            return None
    return rivals


class _Analysis:
    """First and last positions of every rule, by iteration to the fixed point."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._of_rule = dict.fromkeys(rules, _Ends(_NONE, _NONE, False))
        self.followed_by_themselves: set[int] = set()
        changed = True
        while changed:
            new = {name: self.ends(node) for name, node in rules.items()}
            changed, self._of_rule = new != self._of_rule, new

    def ends(self, node: Node) -> _Ends:
        match node:
            case Chars():
                return _Ends(frozenset({id(node)}), frozenset({id(node)}), False)
            case Reference(name):
                return self._of_rule[name]
            case Choice(options):
                parts = [self.ends(option) for option in options]
                first, last = _NONE.union(*(p.first for p in parts)), _NONE.union(*(p.last for p in parts))
                return _Ends(first, last, any(p.empty for p in parts))
            case Sequence(items):
                whole = _Ends(_NONE, _NONE, True)
                for item in items:
                    whole = _joined(whole, self.ends(item))
                return whole
            case Repeat(item, least, most):
                body = self.ends(item)
                return _Ends(_NONE, _NONE, True) if most == 0 else body._replace(empty=body.empty or least == 0)
        raise AssertionError(node)

    def follow(self, positions: set[int]) -> dict[int, set[int]]:
        """What may come after each position. Fills followed_by_themselves, for ways other than a class's own loop."""
        follow: dict[int, set[int]] = {position: set() for position in positions}
        for rule in self._rules.values():
            for node in _all(rule):
                for last, first, own in self._meetings(node):
                    for position in last:
                        follow[position] |= first
                    self.followed_by_themselves |= (last & first) - own
        return follow

    def _meetings(self, node: Node) -> Iterator[tuple[Positions, Positions, Positions]]:
        """(last positions, first positions that come next, those of them that are runs of this loop)."""
        if isinstance(node, Repeat) and node.most not in (0, 1):
            body = self.ends(node.item)
            yield body.last, body.first, frozenset(map(id, run_candidates(node)))
        elif isinstance(node, Sequence):
            before = _Ends(_NONE, _NONE, True)
            for item in node.items:
                ends = self.ends(item)
                yield before.last, ends.first, _NONE
                before = _joined(before, ends)


def _joined(a: _Ends, b: _Ends) -> _Ends:
    first = a.first | b.first if a.empty else a.first
    return _Ends(first, a.last | b.last if b.empty else b.last, a.empty and b.empty)


def _all(node: Node) -> Iterator[Node]:
    yield node
    match node:
        case Sequence(parts) | Choice(parts):
            for part in parts:
                yield from _all(part)
        case Repeat(item):
            yield from _all(item)


def _overlap(a: Chars, b: Chars) -> bool:
    return any(x[0] <= y[1] and y[0] <= x[1] for x in a.ranges for y in b.ranges)
