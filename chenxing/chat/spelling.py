"""Which tokens a text was made of. A model spells its answers as it samples them, and the tokenizer, given the same
text, would often choose other tokens: then the keys and values of the answer, which are those of its tokens, could not
be found again when the answer comes back as part of a longer conversation.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from xxhash import xxh3_128, xxh3_128_digest

from chenxing.tokenizer import Tokenizer

_HEAD = struct.Struct("<Q16sI")  # place, context, bytes of the text


@dataclass(frozen=True, slots=True)
class Spelling:
    """Plain text without special tokens, in its place of a prompt.

    at       bytes of the prompt's text before it
    context  xxh3-128 of these bytes. It tells apart answers of the same words; it is no proof of anything
    text     the bytes that the ids are
    ids      little-endian u32 each
    """

    at: int
    context: bytes
    text: bytes
    ids: bytes

    @property
    def end(self) -> int:
        return self.at + len(self.text)

    def token_ids(self) -> list[int]:
        return np.frombuffer(self.ids, "<u4").tolist()

    def stands_in(self, data: bytes) -> bool:
        """Whether data has this text in this place, after the same bytes."""
        return data.startswith(self.text, self.at) and xxh3_128_digest(memoryview(data)[: self.at]) == self.context

    def pack(self) -> bytes:
        return _HEAD.pack(self.at, self.context, len(self.text)) + self.text + self.ids

    @classmethod
    def unpack(cls, data: bytes) -> "Spelling | None":
        """None for bytes that are no spelling."""
        if len(data) < _HEAD.size:
            return None
        at, context, n = _HEAD.unpack_from(data)
        text, ids = data[_HEAD.size : _HEAD.size + n], data[_HEAD.size + n :]
        return cls(at, context, text, ids) if text and ids and not len(ids) % 4 else None


def spellings_of(tokenizer: Tokenizer, before: bytes, ids: Sequence[int]) -> list[Spelling]:
    """What `ids`, generated after a prompt of the text `before`, teach: a spelling for each run of plain tokens.

    Special tokens part the runs, since the tokenizer always finds those in the same way. Where the last run ends with
    white space, its beginning is a spelling as well: many templates trim an answer. A run that is no UTF-8, which
    nobody can send back, teaches nothing.
    """
    context, at = xxh3_128(before), len(before)
    runs: list[tuple[int, bytes, list[int]]] = []
    run: list[int] = []
    for token in [*ids, None]:
        if token is not None and not tokenizer.is_special(token):
            run.append(token)
            continue
        if run:
            runs.append((at, context.digest(), run))
        text = tokenizer.join(run if token is None else [*run, token], special=True)
        context.update(text)
        at, run = at + len(text), []
    if runs and (trimmed := _trimmed(tokenizer, runs[-1][2])):
        runs.append((*runs[-1][:2], trimmed))
    found = [_spelling(place, digest, tokenizer.join(run), run) for place, digest, run in runs]
    return [spelling for spelling in found if _is_utf8(spelling.text) and spelling.text]


def shown_ids(tokenizer: Tokenizer, ids: Sequence[int], text: str) -> Sequence[int]:
    """The first of ids, those whose text is `text`. None of them if a stop string cut the answer inside a token."""
    wanted, n_bytes, n = text.encode(errors="surrogatepass"), 0, 0
    while n_bytes < len(wanted) and n < len(ids):
        n_bytes += len(tokenizer.join(ids[n : n + 1]))
        n += 1
    return ids[:n] if tokenizer.join(ids[:n]) == wanted else []


def _trimmed(tokenizer: Tokenizer, run: list[int]) -> list[int]:
    """run without the tokens of its trailing white space; none if there is none, or if it shares a token with words."""
    n = len(run)
    while n and tokenizer.join(run[n - 1 : n]).isspace():
        n -= 1
    return run[:n] if n < len(run) and not tokenizer.join(run[n - 1 : n])[-1:].isspace() else []


def _spelling(at: int, context: bytes, text: bytes, ids: Iterable[int]) -> Spelling:
    return Spelling(at, context, text, np.array(list(ids), "<u4").tobytes())


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
