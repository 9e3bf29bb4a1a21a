"""From GBNF's rules to a grammar for llguidance, of exactly the same language.

llguidance first cuts a text into lexemes, always the longest, and then parses those; GBNF knows only characters. So a
lexeme of several characters may swallow what the next rule needs. What is done about it:

- A grammar without recursion is one regular expression, so one lexeme. Nothing follows it.
- Else a lexeme is a single character (one code point is never the beginning of another one), but for runs such as the
  inside of a string, [^"]*, where a lexeme for each character would be slow. A class becomes a run only if no other
  character that could stand at the same place belongs to it (gbnf_runs.py).
"""

import json
from dataclasses import dataclass

from chenxing.errors import GrammarError
from chenxing.sampling.gbnf import Chars, Choice, Node, Reference, Repeat, Rules, Sequence
from chenxing.sampling.gbnf_runs import run_candidates, safe_runs

_LARGEST_EXPRESSION = 50_000  # characters; repeated references could make it grow exponentially


def to_grammar(rules: Rules) -> str:
    """llguidance's grammar for the rule `root`. Raises GrammarError."""
    from llguidance import LLMatcher

    expression = _Expression(rules).of_root() if not _is_recursive(rules, "root") else None
    if expression is not None:
        return str(LLMatcher.grammar_from_regex(expression))
    return json.dumps({"grammars": [{"lark_grammar": _lark(rules)}]})


def _is_recursive(rules: Rules, root: str) -> bool:
    """Whether a rule that the root needs may come to need itself. Raises GrammarError for far too long chains."""
    finished: set[str] = set()
    stack: list[tuple[str, list[str]]] = [(root, _references(rules[root]))]
    while stack:
        name, left = stack[-1]
        if not left:
            finished.add(name)
            stack.pop()
        elif (below := left.pop()) not in finished:
            if any(below == open_name for open_name, _ in stack):
                return True
            stack.append((below, _references(rules[below])))
            if len(stack) > 500:
                raise GrammarError(f"grammar: rule {below}: expected rules nested at most 500 deep, found more")
    return False


def _references(node: Node) -> list[str]:
    match node:
        case Reference(name):
            return [name]
        case Sequence(parts) | Choice(parts):
            return [name for part in parts for name in _references(part)]
        case Repeat(item):
            return _references(item)
    return []


@dataclass
class _Expression:
    """A regular expression for rules without recursion; None where it would become too large."""

    rules: Rules

    def of_root(self) -> str | None:
        self._known: dict[str, str] = {}
        try:
            return self._of(Reference("root"))
        except _TooLargeError:
            return None

    def _of(self, node: Node) -> str:
        match node:
            case Chars(ranges):
                text = _class(ranges)
            case Sequence(items):
                text = "".join(map(self._of, items))
            case Choice(options):
                text = f"(?:{'|'.join(map(self._of, options))})"
            case Repeat(item, least, most):
                text = f"(?:{self._of(item)}){_times(least, most)}"
            case Reference(name):
                if name not in self._known:
                    self._known[name] = self._of(self.rules[name])
                text = self._known[name]
        if len(text) > _LARGEST_EXPRESSION:
            raise _TooLargeError
        return text


class _TooLargeError(Exception):
    pass


def _lark(rules: Rules) -> str:
    """Lark's notation as llguidance reads it; the rules are numbered, as Lark's names have another alphabet."""
    names = {name: f"r{n}" for n, name in enumerate(rules)}
    writer = _Lark(names, safe_runs(rules))
    lines = [f"{names[name]}: {writer.of(node)}" for name, node in rules.items()]
    return "\n".join([f"start: {names['root']}", *lines])


@dataclass
class _Lark:
    names: dict[str, str]
    runs: set[int]  # identities of classes

    def of(self, node: Node) -> str:
        match node:
            case Chars(ranges):
                return f"/{_class(ranges)}/"
            case Sequence(items):
                return f"({' '.join(map(self.of, items))})" if items else '""'
            case Choice(options):
                return f"({' | '.join(map(self.of, options))})"
            case Repeat(_, least, most):
                return f"({self._turn(node)}){_times(least, most)}"
            case Reference(name):
                return self.names[name]
        raise AssertionError(node)

    def _turn(self, loop: Repeat) -> str:
        """The inside of a loop, with its runs."""
        runs = [id(c) for c in run_candidates(loop) if id(c) in self.runs]
        if not runs:
            return self.of(loop.item)
        options = loop.item.options if isinstance(loop.item, Choice) else (loop.item,)
        return " | ".join(self._run(option) if id(option) in runs else self.of(option) for option in options)

    def _run(self, node: Node) -> str:
        assert isinstance(node, Chars)
        return f"/{_class(node.ranges)}+/"


def _class(ranges: tuple[tuple[int, int], ...]) -> str:
    """One code point in the notation of regular expressions, in ASCII without any sign that needs an escape."""
    return "[" + "".join(f"\\x{{{first:X}}}-\\x{{{last:X}}}" for first, last in map(_without_surrogates, ranges)) + "]"


def _without_surrogates(bounds: tuple[int, int]) -> tuple[int, int]:
    """Bounds that are characters: U+D800..U+DFFF are none."""
    first, last = bounds
    return 0xE000 if 0xD800 <= first <= 0xDFFF else first, 0xD7FF if 0xD800 <= last <= 0xDFFF else last


def _times(least: int, most: int | None) -> str:
    signs: dict[tuple[int, int | None], str] = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    return signs.get((least, most), f"{{{least},{'' if most is None else most}}}")
