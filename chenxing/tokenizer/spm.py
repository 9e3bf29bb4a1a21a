"""SentencePiece-BPE vocabularies (tokenizer.ggml.model = llama): neighbours are merged while a token has their text.

The pair that makes the token of the highest score goes first, of equal scores the leftmost. What is no token in the
end is spelt in <0xXX> tokens. Own code, since the tokenizers library has no BPE by scores; merges derived from scores,
as its converters make them, order equal scores otherwise.

Source  llama.cpp b11434, src/llama-vocab.cpp: llm_tokenizer_spm_session; Kudo and Richardson 2018, arXiv:1808.06226
"""

from collections.abc import Callable

import numpy as np

from chenxing.errors import TokenizerError
from chenxing.tokenizer import utf8
from chenxing.tokenizer.cache import Arrays
from chenxing.tokenizer.merging import NO_PAIR, Merger, pack
from chenxing.tokenizer.spacewords import SPACE_BYTES, find_joints, word_finder
from chenxing.tokenizer.symbols import Symbols, pack_texts
from chenxing.tokenizer.vocabulary import Vocabulary
from chenxing.tokenizer.words import WordCache


def build_tables(texts: list[bytes], scores: np.ndarray) -> Arrays:
    """Scores as ranks; characters that only occur inside tokens become symbols."""
    _, ranks = np.unique(-scores, return_inverse=True)
    characters: set[str] = set()
    others: set[bytes] = set()
    for text in texts:
        try:
            characters.update(text.decode())
        except UnicodeDecodeError:
            others.update(utf8.split_characters(text))
    others.update(map(str.encode, characters))
    return {"ranks": ranks.astype(np.uint32)} | pack_texts(sorted(others.difference(texts))) | find_joints(texts)


class Spm:
    """may_make  whether a token may come out of merging: all of them, or all but control tokens (see base.py)."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        tables: Arrays,
        add_space_prefix: bool,
        may_make: Callable[[int], bool] | None = None,
    ) -> None:
        self._vocabulary, self._may_make, self._add_space_prefix = vocabulary, may_make, add_space_prefix
        self._ranks = tables["ranks"].data
        self._symbols = Symbols(vocabulary, tables)
        self._split = word_finder(tables)
        self._merger = Merger(self._find)
        self._words = WordCache(lambda word: self._encode_characters([c.encode() for c in word]))

    def encode(self, data: bytes, after_special: bool) -> list[int]:
        """Ids of a text without special tokens. after_special: it begins the text or follows a special token."""
        if self._add_space_prefix and after_special:
            data = b" " + data
        data = data.replace(b" ", SPACE_BYTES)
        try:
            return self._words.encode(self._split(data.decode()))
        except UnicodeDecodeError:
            return self._encode_characters(utf8.split_characters(data))

    def _encode_characters(self, characters: list[bytes]) -> list[int]:
        symbols = self._merger.merge(list(map(self._symbols.number, characters)))
        return self._symbols.to_ids(symbols, self._spell)

    def _find(self, left: int, right: int) -> int:
        token = self._vocabulary.find(self._symbols.text(left) + self._symbols.text(right))
        if token is None or (self._may_make is not None and not self._may_make(token)):
            return NO_PAIR
        return pack(self._ranks[token], token)

    def _spell(self, text: bytes) -> list[int]:
        return [self._byte_token(byte) for byte in text]

    def _byte_token(self, byte: int) -> int:
        for text in (b"<0x%02X>" % byte, bytes([byte])):
            token = self._vocabulary.find(text)
            if token is not None:
                return token
        raise TokenizerError(
            f"the vocabulary cannot represent byte 0x{byte:02X}: it has neither a token <0x{byte:02X}> nor one of that "
            "byte. The model cannot be given this text"
        )
