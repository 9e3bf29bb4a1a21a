"""From ids back to bytes.

Source  llama.cpp b11434, src/llama-vocab.cpp: llama_vocab::impl::token_to_piece, detokenize
"""

import re
from collections.abc import Callable

from chenxing.tokenizer.bytelevel import from_byte_text
from chenxing.tokenizer.spacewords import SPACE_BYTES
from chenxing.tokenizer.vocabulary import Attr, Vocabulary

_HEX = re.compile(b"[0-9A-Fa-f]{1,2}")
_SPACE_BEFORE_SIGN = re.compile(rb" (?=[?!.,])")
_SPACE_BEFORE_SUFFIX = re.compile(rb" (?='(?:[sm]|re|ve))")

# plain integers: operators of enums would be most of the time it takes to spell a whole vocabulary
_VERBATIM = int(Attr.CONTROL | Attr.UNKNOWN | Attr.USER_DEFINED)
_NORMAL, _BYTE = int(Attr.NORMAL), int(Attr.BYTE)


def unescape_spaces(text: bytes) -> bytes:
    return text.replace(SPACE_BYTES, b" ")


class Pieces:
    """What each token is in text.

    spell  the text of an ordinary token -> its bytes: unescape_spaces or from_byte_text
    """

    def __init__(self, vocabulary: Vocabulary, byte_level: bool) -> None:
        self._vocabulary = vocabulary
        self._spell: Callable[[bytes], bytes] = from_byte_text if byte_level else unescape_spaces
        self._hidden = frozenset(vocabulary.ids(Attr.CONTROL | Attr.UNKNOWN))
        self._pieces: dict[int, bytes] = {}

    def with_special(self, token_id: int) -> bytes:
        """The token's bytes; of special tokens, their text. Raises TokenizerError for an id out of range."""
        piece = self._pieces.get(token_id)
        if piece is None:
            piece = self._pieces[token_id] = self._make(token_id)
        return piece

    def without_special(self, token_id: int) -> bytes:
        """The token's bytes; nothing for control and unknown tokens."""
        return b"" if token_id in self._hidden else self.with_special(token_id)

    def _make(self, token_id: int) -> bytes:
        vocabulary = self._vocabulary
        attr, text = int(vocabulary.attrs[vocabulary.checked(token_id)]), vocabulary.text(token_id)
        if attr & _VERBATIM:
            return text
        if attr & _NORMAL:
            return self._spell(text)
        if attr & _BYTE:
            digits = _HEX.match(text, 3, 5)  # <0xXX>
            return bytes([int(digits[0], 16) if digits else 0])
        return b""


def clean_spaces(data: bytes) -> bytes:
    """English text without the spaces that a word tokenizer leaves before punctuation and some suffixes."""
    data = _SPACE_BEFORE_SIGN.sub(b"", data).replace(b" ' ", b"'")
    return _SPACE_BEFORE_SUFFIX.sub(b"", data)
