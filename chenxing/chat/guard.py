"""The user's text is data (law L7): no text of a message becomes a control token.

Where a string of a message, tool or document spells a special token, a noncharacter is put after the first character
of it. The tokenizer, which matches special tokens before anything else, then finds none there, and drops the
noncharacter before it splits the plain text, so the text itself is tokenised as if the guard had never been.
Guarding strings before rendering, rather than marking spans of the output, survives whatever the template does to
them: concatenation, trimming, splitting, JSON.

What is guarded:
- The special texts that the tokenizer names: of control tokens, and of others that are never text.
- User-defined tokens that the template itself writes (in Qwen3 `<tool_call>`, `</think>`), since they steer the model
  there. Other user-defined tokens are vocabulary (`<h1>`, runs of spaces), and guarding them would only change how
  ordinary text is tokenised.
- In the assistant's messages, control tokens only. A model's control tokens are not shown, so the text of one in its
  answer was spelled out and is data; its user-defined tokens are shown, so there they are what the model wrote, and a
  history of its own must become the same tokens again. Even a control token stays if the template looks for its text
  (`'</think>' in content`, `content.split('</think>')`): the author counts on finding it there.
- White space never, and a text of one character cannot be.

A special text can also come about at the border of a string, from its end and what the template writes next (or the
next string). `edges` closes that: a string that could begin inside a special text, or end inside one, gets the guard
there. Names, ids and types are spared, since templates compare them with words of their own.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import Any

from chenxing.chat.messages import Message
from chenxing.errors import UsageError

GUARDS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
"""Unicode noncharacters: never text, and U+FDD0..U+FDEF are valid in UTF-8."""

_WORDS = frozenset(("role", "type", "name", "id", "tool_call_id"))
_GUARD = re.compile("[\ufdd0-\ufdef]")


class Finder:
    """Finds given texts in a text: two characters give the candidates, whatever the number of texts, then lengths."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = frozenset(text for text in texts if len(text) > 1 and not text.isspace())
        self._lengths: dict[str, set[int]] = {}
        for text in self.texts:
            self._lengths.setdefault(text[:2], set()).add(len(text))
        self._start = re.compile(f"(?={'|'.join(map(re.escape, self._lengths))})") if self.texts else None

    def found(self, text: str) -> Iterator[tuple[int, str]]:
        """Place and text of every occurrence, overlapping ones too."""
        if self._start is not None:
            for match in self._start.finditer(text):
                at = match.start()
                for n in self._lengths[text[at : at + 2]]:
                    if (candidate := text[at : at + n]) in self.texts:
                        yield at, candidate


class Guard:
    """Breaks up every occurrence of the given texts. `character` is what it puts in."""

    def __init__(self, texts: Iterable[str], character: str) -> None:
        self.character = character
        self._finder = Finder(texts)
        self._texts = sorted(self._finder.texts)
        self._reversed = sorted(text[::-1] for text in self._texts)
        self._all = "\0".join(self._texts)
        self._longest = max(map(len, self._texts), default=0)

    def whole(self, text: str) -> str:
        """`text` with every occurrence broken."""
        return self._inserted(text, self._inside(text))

    def edges(self, text: str) -> str:
        """`whole`, and the guard at an end where a special text could reach across the string's border.

        The border is also where the string ends once a template has trimmed it.
        """
        places = self._inside(text)
        trimmed = len(text) - len(text.lstrip()), len(text.rstrip())
        for start, end in {(0, len(text)), trimmed}:
            part = text[start:end]
            if part and (self._overlaps(part[: self._longest][::-1], self._reversed) or self._is_inside(part)):
                places.add(start)
            if part and self._overlaps(part[-self._longest :], self._texts):
                places.add(end)
        return self._inserted(text, places)

    def _inside(self, text: str) -> set[int]:
        return {at + 1 for at, _ in self._finder.found(text)}

    def _is_inside(self, text: str) -> bool:
        return len(text) < self._longest and text in self._all

    def _inserted(self, text: str, places: set[int]) -> str:
        if not places:
            return text
        cuts = [0, *sorted(places), len(text)]
        return self.character.join(text[start:end] for start, end in pairwise(cuts))

    @staticmethod
    def _overlaps(text: str, texts: list[str]) -> bool:
        """Whether a proper prefix of one of the sorted `texts` is a suffix of `text`."""
        for at in range(1, len(text) + 1):
            tail = text[-at:]
            i = bisect_left(texts, tail)
            if i < len(texts) and texts[i] == tail:
                i += 1
            if i < len(texts) and texts[i].startswith(tail):
                return True
        return False


def guarded_texts(
    special: Collection[str], user_defined: Collection[str], source: str, sought: Collection[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """The texts to guard in the assistant's messages, and in everything else.

    special       texts of tokens that are never text, as the tokenizer names them
    user_defined  texts of all tokens that the vocabulary calls user-defined
    source        the template
    sought        texts that it looks for in strings
    """
    never_text, shown = frozenset(special), frozenset(user_defined)
    written = frozenset(text for _, text in Finder(shown).found(source))
    return never_text - shown - frozenset(text.strip() for text in sought), never_text | written


def guard_character(values: Any) -> str:
    """One that occurs in no string of `values`."""
    used = {found for text in _strings(values) for found in _GUARD.findall(text)}
    for character in GUARDS:
        if character not in used:
            return character
    raise UsageError("messages: the text holds all of the noncharacters U+FDD0 to U+FDEF, one must be left unused")


def guard_messages(messages: list[Message], assistant: Guard, others: Guard) -> list[Message]:
    return [
        _mapped(message, assistant if message["role"] == "assistant" else others, edges=True) for message in messages
    ]


def guard_values(values: list[dict[str, Any]], guard: Guard, *, edges: bool) -> list[dict[str, Any]]:
    """Tools (their words are the developer's, and templates test them: no edges) or documents (edges)."""
    return [_mapped(value, guard, edges=edges) for value in values]


def _mapped(value: Any, guard: Guard, *, edges: bool) -> Any:
    if isinstance(value, str):
        return guard.edges(value) if edges else guard.whole(value)
    if isinstance(value, dict):
        return {
            guard.whole(key): _mapped(item, guard, edges=edges and key not in _WORDS) for key, item in value.items()
        }
    return [_mapped(item, guard, edges=edges) for item in value] if isinstance(value, list) else value


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _strings(item)


def n_characters(*values: Any) -> int:
    return sum(map(len, _strings(values)))
