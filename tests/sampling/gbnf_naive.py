"""Whether a GBNF grammar generates a text: slow and obvious, for grammars without left recursion."""

from chenxing.sampling.gbnf import Chars, Choice, Node, Reference, Repeat, Rules, Sequence


def generates(rules: Rules, text: str) -> bool:
    return len(text) in _ends(rules, rules["root"], text, 0)


def _ends(rules: Rules, node: Node, text: str, start: int) -> set[int]:
    """Where a text of the node that starts here may end."""
    match node:
        case Chars(ranges):
            fits = start < len(text) and any(first <= ord(text[start]) <= last for first, last in ranges)
            return {start + 1} if fits else set()
        case Reference(name):
            return _ends(rules, rules[name], text, start)
        case Choice(options):
            return {end for option in options for end in _ends(rules, option, text, start)}
        case Sequence(items):
            places = {start}
            for item in items:
                places = {end for place in places for end in _ends(rules, item, text, place)}
            return places
        case Repeat(item, least, most):
            places, found, n = {start}, {start} if least == 0 else set(), 0
            while places and (most is None or n < most):
                places, n = {end for place in places for end in _ends(rules, item, text, place)}, n + 1
                if n >= least and places <= found:
                    break
                found |= places if n >= least else set()
            return found
    raise AssertionError(node)
