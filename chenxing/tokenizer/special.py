"""Cutting special tokens out of a text, before the rest is tokenised.

Longer tokens are found before shorter ones, wherever they stand; of one token the leftmost occurrence first.
User-defined tokens are always found, control and unknown ones only if asked for.

llama.cpp searches the text once for each special token, 6,414 times for Gemma 3. Here one pass tells which of them
occur at all, and only those are searched for.

Source  llama.cpp b11434, src/llama-vocab.cpp: llama_vocab::impl::tokenizer_st_partition
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from chenxing.tokenizer.vocabulary import Attr, Vocabulary

_SPACES = b" \t\n\v\f\r"
_WINDOW = 1 << 15  # bytes: a fraction of a millisecond


class Span(NamedTuple):
    """Bytes start to end of a text: a special token (with white space that it swallows), or plain text if None."""

    start: int
    end: int
    token: int | None


class SpecialTokens:
    """All tokens of a vocabulary that are matched as a whole.

    ids         all of them: control, unknown and user-defined ones
    never_text  texts of those that shape a conversation: control, unknown, and user-defined ones such as <|user|>
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        special = vocabulary.ids(Attr.CONTROL | Attr.USER_DEFINED | Attr.UNKNOWN)
        texts = {token: vocabulary.text(token) for token in special}
        hidden = frozenset(vocabulary.ids(Attr.CONTROL | Attr.UNKNOWN))
        self._texts, self.ids = texts, frozenset(special)
        self._all = _Presence(texts)
        self._shown = _Presence({token: text for token, text in texts.items() if token not in hidden})
        self._lstrip, self._rstrip = frozenset(vocabulary.ids(Attr.LSTRIP)), frozenset(vocabulary.ids(Attr.RSTRIP))
        self.never_text = [text for token, text in texts.items() if token in hidden or _is_markup(text)]

    def partition(self, data: bytes, parse_special: bool, guards: Sequence[int] = ()) -> list[Span]:
        """data as texts and tokens. guards: ascending places that no token may reach across."""
        present = (self._all if parse_special else self._shown).tokens(data)
        taken: list[tuple[int, int, int]] = []
        used = bytearray(len(data))
        for token in sorted(present, key=lambda token: (-len(self._texts[token]), token)):
            taken += self._occurrences(token, data, used, guards)
        return _with_texts(len(data), sorted(taken))

    def _occurrences(
        self, token: int, data: bytes, used: bytearray, guards: Sequence[int]
    ) -> list[tuple[int, int, int]]:
        """(start, end, token) wherever token stands and nothing is used; stripped white space included. Marks used."""
        text = self._texts[token]
        found: list[tuple[int, int, int]] = []
        place = data.find(text)
        while place >= 0:
            start, end = place, place + len(text)
            overlap = used.rfind(1, start, end)
            if overlap >= 0:
                free = used.find(0, overlap)
                place = data.find(text, free) if free >= 0 else -1
                continue
            if guards and _reaches_across(start, end, guards):
                place = data.find(text, start + 1)
                continue
            if token in self._lstrip:
                while start and data[start - 1] in _SPACES and not used[start - 1]:
                    start -= 1
            if token in self._rstrip:
                while end < len(data) and data[end] in _SPACES and not used[end]:
                    end += 1
            used[start:end] = b"\1" * (end - start)
            found.append((start, end, token))
            place = data.find(text, end)
        return found


class _Presence:
    """Tells which of some texts occur in a text: exactly, but for runs of one byte, whose places are not looked at."""

    def __init__(self, texts: dict[int, bytes]) -> None:
        self._tokens = {text: token for token, text in texts.items()}
        self._lengths: dict[bytes, set[int]] = defaultdict(set)
        runs: dict[bytes, list[bytes]] = defaultdict(list)
        for text in texts.values():
            if text.count(text[:1]) == len(text):
                runs[text[:1]].append(text)
            else:
                self._lengths[text[:2]].add(len(text))
        self._starts = _expression(self._lengths) if self._lengths else re.compile(b"(?!)")
        self._runs = [sorted(same, key=len) for same in runs.values()]

    def tokens(self, data: bytes) -> set[int]:
        found: set[int] = set()
        for start in self._places(data):
            for length in self._lengths[data[start : start + 2]]:
                token = self._tokens.get(data[start : start + length])
                if token is not None:
                    found.add(token)
        for same in self._runs:
            found.update(self._tokens[text] for text in takewhile(data.__contains__, same))
        return found

    def _places(self, data: bytes) -> Iterator[int]:
        """Where a text may begin. In windows, since no other thread runs while an expression looks for its match."""
        for first in range(0, len(data), _WINDOW):
            end = first + _WINDOW + 1  # the last pair begins at the window's last byte
            match = self._starts.search(data, first, end)
            while match:
                yield match.start()
                match = self._starts.search(data, match.start() + 1, end)


def _expression(starts: dict[bytes, set[int]]) -> re.Pattern[bytes]:
    """Finds places where one of these pairs of bytes stands."""
    seconds: dict[bytes, list[bytes]] = defaultdict(list)
    for start in starts:
        seconds[start[:1]].append(re.escape(start[1:]))
    branches = [re.escape(first) + b"[%s]" % b"".join(following) for first, following in seconds.items()]
    return re.compile(b"|".join(branches))


def _reaches_across(start: int, end: int, guards: Sequence[int]) -> bool:
    guard = bisect_right(guards, start)
    return guard < len(guards) and guards[guard] < end


def _with_texts(n_bytes: int, taken: list[tuple[int, int, int]]) -> list[Span]:
    spans: list[Span] = []
    place = 0
    for start, end, token in taken:
        if start > place:
            spans.append(Span(place, start, None))
        spans.append(Span(start, end, token))
        place = end
    if place < n_bytes:
        spans.append(Span(place, n_bytes, None))
    return spans


def _is_markup(text: bytes) -> bool:
    """A token that shapes a conversation although the file calls it user-defined: <|user|>, <|channel>, <｜User｜>."""
    return text.startswith((b"<|", "<｜".encode())) or text.endswith((b"|>", "｜>".encode()))
