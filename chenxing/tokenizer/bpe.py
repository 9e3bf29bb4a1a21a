"""BPE vocabularies (tokenizer.ggml.model = gpt2 and gemma4): words by a pre-tokenizer, then merges by rank.

Own code throughout: for merging, merging.py says why; for cutting into words, the tokenizers library's expressions
differ from llama.cpp's (categories, white space, invalid UTF-8), and ids must be llama.cpp's.

Source  llama.cpp b11434, src/llama-vocab.cpp: llm_tokenizer_bpe_session; Sennrich et al. 2016, arXiv:1508.07909
"""

import re
from collections.abc import Callable, Iterator
from itertools import repeat

import numpy as np

from chenxing.tokenizer import utf8
from chenxing.tokenizer.bytelevel import BYTE_TEXTS, to_byte_text
from chenxing.tokenizer.cache import Arrays
from chenxing.tokenizer.merging import NO_PAIR, Merger
from chenxing.tokenizer.pretokenizers import PreTokenizer
from chenxing.tokenizer.spacewords import SPACE, SPACE_BYTES, find_joints, word_finder
from chenxing.tokenizer.symbols import Symbols, pack_texts
from chenxing.tokenizer.tables import PairTable, build_pair_table
from chenxing.tokenizer.vocabulary import Vocabulary
from chenxing.tokenizer.words import WordCache, WordSplitter

_METASPACE_WORDS = re.compile(f".[^{SPACE}]*", re.DOTALL)


def build_tables(texts: list[bytes], merges: list[bytes]) -> Arrays:
    """Merges as pairs of symbols. Texts in them that are no tokens become symbols; of equal merges the first counts."""
    split = [_halves(merge) for merge in merges]
    numbers = {text: i for i, text in enumerate(texts)}
    others: list[bytes] = []

    def symbols(wanted: list[bytes]) -> np.ndarray:
        found = np.fromiter(map(numbers.get, wanted, repeat(-1)), np.int64, len(wanted))
        for i in np.flatnonzero(found < 0).tolist():
            if wanted[i] not in numbers:
                numbers[wanted[i]] = len(numbers)
                others.append(wanted[i])
            found[i] = numbers[wanted[i]]
        return found

    left, right = symbols([left for left, _ in split]), symbols([right for _, right in split])
    merged = symbols([left + right for left, right in split])
    _, ranks = np.unique(left << 32 | right, return_index=True)  # the first of each
    ranks = ranks[np.array([bool(left) for left, _ in split])[ranks]] if split else ranks
    return (
        build_pair_table(np.stack([left[ranks], right[ranks], ranks, merged[ranks]], axis=1))
        | pack_texts(others)
        | find_joints(texts + others)
    )


def _halves(merge: bytes) -> tuple[bytes, bytes]:
    """llama.cpp parts a merge at the first space that is not its first byte; one without is of nothing with nothing."""
    space = merge.find(b" ", 1)
    return (merge[:space], merge[space + 1 :]) if space > 0 else (b"", b"")


class Bpe:
    """may_make  whether a token may come out of merging: all of them, or all but control tokens (see base.py)."""

    def __init__(
        self, vocabulary: Vocabulary, tables: Arrays, pre: PreTokenizer, may_make: Callable[[int], bool] | None = None
    ) -> None:
        self._vocabulary, self._pre, self._may_make = vocabulary, pre, may_make
        self._symbols = Symbols(vocabulary, tables)
        self._pairs = PairTable(tables)
        self._splitter = WordSplitter(pre.rules)
        self._space_words = word_finder(tables)
        self._merger = Merger(self._find)
        self._words = WordCache(self._encode_word)
        self._byte_symbols = [self._symbols.number(text) for text in BYTE_TEXTS] if pre.byte_level else []

    def encode(self, data: bytes, after_special: bool) -> list[int]:
        """Ids of a text without special tokens."""
        if not self._pre.escape_spaces:
            return self._words.encode(self._splitter.split(utf8.decode(data)))
        pieces = self._splitter.split(utf8.decode(data.replace(b" ", SPACE_BYTES)))
        return self._words.encode(_metaspace(pieces) if self._pre.metaspace else self._apart(pieces))

    def _apart(self, pieces: list[str]) -> Iterator[str]:
        for piece in pieces:
            yield from self._space_words(piece)

    def _encode_word(self, word: str) -> list[int]:
        data = utf8.to_bytes(word)
        whole = self._whole_token(data)
        if whole is not None:
            return [whole]
        if self._pre.byte_level:
            symbols = list(map(self._byte_symbols.__getitem__, data))
        else:
            symbols = [self._symbols.number(character) for character in utf8.split_characters(data)]
        return self._symbols.to_ids(self._merger.merge(symbols), self._spell)

    def _whole_token(self, data: bytes) -> int | None:
        if not self._pre.ignore_merges and not (self._pre.newline_tokens and not data.strip(b"\n")):
            return None
        token = self._vocabulary.find(to_byte_text(data) if self._pre.byte_level else data)
        return token if token is not None and self._allowed(token) else None

    def _find(self, left: int, right: int) -> int:
        found = self._pairs.find(left, right)
        return found if found == NO_PAIR or self._allowed(found & 0xFFFFFFFF) else NO_PAIR

    def _allowed(self, symbol: int) -> bool:
        return self._may_make is None or symbol >= self._vocabulary.n or self._may_make(symbol)

    def _spell(self, text: bytes) -> list[int]:
        """A text that is no token, byte by byte; llama.cpp drops bytes that are no tokens either."""
        spellings = (bytes([byte]) if self._pre.byte_level else b"<0x%02X>" % byte for byte in text)
        return [token for token in map(self._vocabulary.find, spellings) if token is not None]


def _metaspace(words: list[str]) -> list[str]:
    """Words that start at each escaped space. A piece of the text that has none in front is given one."""
    found: list[str] = []
    for word in words:
        if not word.strip("\n"):
            found.append(word)
        else:
            found += _METASPACE_WORDS.findall(word if word.startswith(SPACE) else SPACE + word)
    return found
