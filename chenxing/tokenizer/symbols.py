"""Symbols: what merging works on. Tokens, and texts on the way to a token that are none themselves.

A symbol below n_tokens is the token of that id; from n_tokens on it is a text that occurs inside tokens or merges but
is no token; a negative one is any other text, which nothing can be merged with: the text itself, spelt as a number.
"""

from collections.abc import Callable, Iterable

import numpy as np

from chenxing.tokenizer.cache import Arrays
from chenxing.tokenizer.vocabulary import Vocabulary


def pack_texts(texts: list[bytes]) -> Arrays:
    """Arrays for Symbols: the texts that are no tokens."""
    ends = np.cumsum([len(text) for text in texts], dtype=np.uint32)
    return {"symbol.ends": ends, "symbol.texts": np.frombuffer(b"".join(texts), np.uint8)}


_MAX_KNOWN = 1 << 16  # there are more than enough texts that are no UTF-8


class Symbols:
    """Numbers of texts and texts of numbers."""

    def __init__(self, vocabulary: Vocabulary, arrays: Arrays) -> None:
        self._vocabulary = vocabulary
        self._n_tokens = vocabulary.n
        ends, blob = arrays["symbol.ends"].tolist(), arrays["symbol.texts"].tobytes()
        self._texts = [blob[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        self._numbers = {text: self._n_tokens + i for i, text in enumerate(self._texts)}
        self._known: dict[bytes, int] = {}

    def number(self, text: bytes) -> int:
        """The symbol of a text that merging starts from: a character, or what stands for one in invalid UTF-8."""
        found = self._known.get(text)
        if found is None:
            token = self._vocabulary.find(text)
            found = token if token is not None else self._numbers.get(text, -int.from_bytes(b"\x01" + text))
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[text] = found
        return found

    def text(self, symbol: int) -> bytes:
        if symbol < 0:
            return (-symbol).to_bytes((symbol.bit_length() + 7) // 8)[1:]
        return self._vocabulary.text(symbol) if symbol < self._n_tokens else self._texts[symbol - self._n_tokens]

    def to_ids(self, symbols: Iterable[int], spell: Callable[[bytes], list[int]]) -> list[int]:
        """Token ids; what is no token is spelt out."""
        ids: list[int] = []
        for symbol in symbols:
            if 0 <= symbol < self._n_tokens:
                ids.append(symbol)
            else:
                ids += spell(self.text(symbol))
        return ids
