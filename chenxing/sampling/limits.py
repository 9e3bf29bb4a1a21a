"""Bounds on what a grammar may cost: its text, the time to begin, the time of a token."""

from typing import TYPE_CHECKING, Any

from chenxing.errors import GrammarError

if TYPE_CHECKING:
    from llguidance import LLParserLimits

_MOST_CHARACTERS = 1_000_000


def parser_limits() -> "LLParserLimits":
    """llguidance's own: half a second to begin and 20 ms a token at most. Its errors show no part of a grammar."""
    from llguidance import LLParserLimits

    return LLParserLimits(verbose_errors=False)


def checked_text(name: str, text: Any) -> str:
    """The text. Raises GrammarError if it is none, or too long."""
    if not isinstance(text, str):
        raise GrammarError(f"{name}: expected a text, found {text!r:.200}")
    if len(text) > _MOST_CHARACTERS:
        raise GrammarError(f"{name}: expected at most {_MOST_CHARACTERS} characters, found {len(text)}")
    return text
