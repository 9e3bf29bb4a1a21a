"""WordPiece vocabularies (tokenizer.ggml.model = bert): the longest token from the left, or the whole word is unknown.

Words start with U+2581 in GGUF, where the original has ## before all other pieces. Own code: llama.cpp's normaliser
differs from BertNormalizer (NFD keeps only the first character, other classes of white space and punctuation).

Source  llama.cpp b11434, src/llama-vocab.cpp: llm_tokenizer_wpm_session; src/unicode.cpp: unicode_cpts_normalize_nfd
"""

import unicodedata

import numpy as np

from chenxing.errors import TokenizerError
from chenxing.tokenizer import classes, utf8
from chenxing.tokenizer.cache import Arrays
from chenxing.tokenizer.spacewords import SPACE_BYTES
from chenxing.tokenizer.vocabulary import Vocabulary
from chenxing.tokenizer.words import WordCache

_WHITESPACE = (b" ", b"\t", b"\n", b"\v", b"\f", b"\r")  # classes of white space
_MAX_KNOWN = 1 << 16
_CHINESE = [
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
]  # fmt: skip


class Normalised(dict[int, str]):
    """For str.translate: what becomes of each code point, with spaces around what is a word of its own."""

    def __init__(self, lowercase: bool, strip_accents: bool) -> None:
        self._lowercase, self._strip_accents = lowercase, strip_accents
        self._categories = classes.categories().tobytes()

    def __missing__(self, point: int) -> str:
        if len(self) >= _MAX_KNOWN:
            self.clear()
        self[point] = normalised = self._normalise(chr(point))
        return normalised

    def _normalise(self, character: str) -> str:
        # characters that are newer than Unicode 15.1 have neither parts nor cases in llama.cpp, whatever Python knows
        if self._strip_accents and self._category(character) != "-":
            character = unicodedata.normalize("NFD", character)[0]
        category, point = self._category(character), ord(character)
        if classes.collapse(character) in _WHITESPACE:
            return " "
        if category == "C" or point in (0, 0xFFFD) or (self._strip_accents and category == "M"):
            return ""
        lower = character.lower()[0] if self._lowercase and category != "-" else character
        is_word = category == "P" or (category == "S" and point < 0x7F) or any(a <= point <= b for a, b in _CHINESE)
        return f" {lower} " if is_word else lower

    def _category(self, character: str) -> str:
        return chr(self._categories[ord(character)])


def build_tables(texts: list[bytes]) -> Arrays:
    """The length of the longest token in bytes."""
    return {"longest": np.array([max(map(len, texts))], np.uint32)}


class Wpm:
    def __init__(self, vocabulary: Vocabulary, tables: Arrays, unk_id: int | None, normalised: Normalised) -> None:
        self._vocabulary, self._unk_id, self._normalised = vocabulary, unk_id, normalised
        self._longest = int(tables["longest"][0])
        self._words = WordCache(self._encode_word)

    def encode(self, data: bytes, after_special: bool) -> list[int]:
        """Ids of a text without special tokens."""
        # split(" ") would keep empty words, split() would cut at more than the translated spaces
        words = utf8.decode(data).translate(self._normalised).split(" ")
        return self._words.encode(filter(None, words))

    def _encode_word(self, word: str) -> list[int]:
        data, find, longest = SPACE_BYTES + utf8.to_bytes(word), self._vocabulary.find, self._longest
        ids: list[int] = []
        known: dict[bytes, int | None] = {}
        start = 0
        while start < len(data):
            for end in range(min(len(data), start + longest), start, -1):
                piece = data[start:end]
                token = known[piece] if piece in known else known.setdefault(piece, find(piece))
                if token is not None:
                    break
            else:
                return self._unknown(word)
            ids.append(token)
            start = end
        return ids

    def _unknown(self, word: str) -> list[int]:
        if self._unk_id is None:
            raise TokenizerError(
                f"the vocabulary cannot represent {word!r}: no pieces make it, no token is for unknowns"
            )
        return [self._unk_id]
