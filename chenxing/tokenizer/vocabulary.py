"""The token list of a model file: texts, scores, kinds, and finding a token by its text.

Source  llama.cpp b11434, src/llama-vocab.cpp: llama_vocab::impl::load; include/llama.h: llama_token_attr
"""

from enum import IntEnum, IntFlag
from typing import NamedTuple

import numpy as np
from xxhash import xxh3_128

from chenxing.errors import ModelFileError, TokenizerError
from chenxing.gguf import GGUF, StringArray
from chenxing.tokenizer.cache import Arrays
from chenxing.tokenizer.tables import TextTable

_KEYS = "tokenizer.ggml."


class TokenType(IntEnum):
    """GGUF's token types."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class Attr(IntFlag):
    """llama.cpp's token attributes: a file's token type becomes the one of its name, rules add others."""

    UNDEFINED = 0
    UNKNOWN = 1
    UNUSED = 2
    NORMAL = 4
    CONTROL = 8
    USER_DEFINED = 16
    BYTE = 32
    LSTRIP = 128
    RSTRIP = 256


_ATTR_OF_TYPE = np.array([Attr[kind.name] for kind in sorted(TokenType)], np.uint16)


class Stored(NamedTuple):
    """The arrays of a file's vocabulary as they are in the file."""

    tokens: StringArray
    types: np.ndarray  # i32[n], NORMAL where the file has none, UNDEFINED for numbers that are no type
    scores: np.ndarray  # f32[n], 0 where the file has none
    merges: StringArray | None


def read_stored(model: GGUF) -> Stored:
    """The vocabulary arrays of a file. Raises ModelFileError if one is missing, too short or of a wrong type."""
    tokens = model.require(_KEYS + "tokens", StringArray)
    if len(tokens) == 0:
        raise ModelFileError(model.path, f"metadata key '{_KEYS}tokens'", "at least one token", "none")
    types = _numbers(model, "token_type", len(tokens), "i", np.int32, TokenType.NORMAL)
    types[(types < 0) | (types > max(TokenType))] = TokenType.UNDEFINED
    scores = _numbers(model, "scores", len(tokens), "if", np.float32, 0)
    return Stored(tokens, types, scores, model.get(_KEYS + "merges", StringArray))


def _numbers(model: GGUF, name: str, n: int, kinds: str, dtype: type, default: float) -> np.ndarray:
    """The first n numbers of an array, as dtype."""
    array = model.get(_KEYS + name, np.ndarray)
    if array is None:
        return np.full(n, default, dtype)
    if len(array) < n or array.dtype.kind not in kinds:
        expected = f"{n} numbers of type {'int32' if kinds == 'i' else 'float32'}, one for each token"
        raise ModelFileError(
            model.path, f"metadata key '{_KEYS}{name}'", expected, f"{len(array)} of type {array.dtype}"
        )
    return array[:n].astype(dtype)


def content_key(model: str, stored: Stored) -> bytes:
    """16 bytes that name what tables are built from: the same vocabulary in two files has the same key."""
    digest = xxh3_128(model.encode() + b"\0")
    merges = stored.merges.raw if stored.merges else b""
    for part in (stored.tokens.raw, stored.types.data, stored.scores.data, merges):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def token_texts(tokens: StringArray) -> list[bytes]:
    """All texts, as llama.cpp has them. Raises TokenizerError if two tokens have the same."""
    texts = tokens.to_bytes()
    if b"" in texts:
        texts = [text or _empty(i) for i, text in enumerate(texts)]
    if len(set(texts)) != len(texts):
        first: dict[bytes, int] = {}
        for i, text in enumerate(texts):
            if first.setdefault(text, i) != i:
                raise TokenizerError(
                    f"the vocabulary contradicts itself: tokens {first[text]} and {i} are both {text!r}. "
                    "Get the model from another source, or convert it again"
                )
    return texts


def _empty(token_id: int) -> bytes:
    return b"[EMPTY_%d]" % token_id


class Vocabulary:
    """Tokens by id and by text.

    n       number of tokens
    find    text as in the file -> the token of this text, or None
    attrs   u16[n], Attr: may be changed until the tokenizer is made
    scores  f32[n]
    types   i32[n], TokenType as in the file
    """

    def __init__(self, stored: Stored, tables: Arrays) -> None:
        self.n = len(stored.tokens)
        self.types, self.scores = stored.types, stored.scores
        self.attrs = _ATTR_OF_TYPE[stored.types]
        self._raw, self._headers = stored.tokens.raw, stored.tokens.headers.data
        self.find = TextTable(tables, self.text).find

    def checked(self, token_id: int) -> int:
        """token_id. Raises TokenizerError if it is out of range."""
        if not 0 <= token_id < self.n:
            raise TokenizerError(f"token id {token_id}: expected 0 to {self.n - 1}, the ids of this vocabulary")
        return token_id

    def text(self, token_id: int) -> bytes:
        """The token's text as in the file, for a valid id."""
        return bytes(self._raw[self._headers[token_id] + 8 : self._headers[token_id + 1]]) or _empty(token_id)

    def mark(self, tokens: list[int], attr: Attr) -> None:
        """Add an attribute to tokens."""
        self.attrs[tokens] |= np.uint16(attr)

    def unmark(self, tokens: list[int], attr: Attr) -> None:
        """Take an attribute from tokens."""
        self.attrs[tokens] &= ~np.uint16(attr)

    def ids(self, attrs: Attr) -> list[int]:
        """All tokens that have one of these attributes, ascending."""
        return np.flatnonzero(self.attrs & np.uint16(attrs)).tolist()
