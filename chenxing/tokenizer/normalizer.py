"""Normalising text for UGM vocabularies: replacements of the compiled map, spaces escaped, added and merged.

Source  llama.cpp b11434, src/llama-vocab.cpp: llm_tokenizer_ugm_session::normalize, normalize_prefix
"""

import re

from chenxing.tokenizer import utf8
from chenxing.tokenizer.charsmap import CharsMap
from chenxing.tokenizer.spacewords import SPACE_BYTES


class Normalizer:
    """user_defined  texts that no replacement may touch; as in llama.cpp, nor any beginning of them"""

    def __init__(
        self, charsmap: CharsMap | None, user_defined: list[bytes], add_space_prefix: bool, merge_spaces: bool
    ) -> None:
        self._charsmap, self._add_space_prefix, self._merge_spaces = charsmap, add_space_prefix, merge_spaces
        self._kept = {text[:n] for text in user_defined for n in range(1, len(text) + 1)}
        plain = charsmap.plain if charsmap else bytes(range(1, 128))
        plain = bytes(byte for byte in plain if bytes([byte]) not in self._kept)
        self._plain_run = re.compile(b"(?:[%s](?![\x80-\xff]))+" % re.escape(plain)) if plain else re.compile(b"(?!)")

    def normalize(self, data: bytes) -> str:
        """What is matched against tokens. Overlong forms and surrogates in data come through, and match none."""
        return utf8.decode_valid(self._with_spaces(self._replaced(data)))

    def _replaced(self, data: bytes) -> bytes:
        pieces, place = [], 0
        while place < len(data):
            plain = self._plain_run.match(data, place)
            if plain:
                pieces.append(plain[0])
                place = plain.end()
            else:
                piece, length = self._prefix(data, place)
                pieces.append(piece)
                place += length
        return b"".join(pieces)

    def _prefix(self, data: bytes, start: int) -> tuple[bytes, int]:
        """(what becomes of the next characters, their length in bytes)."""
        end = start
        while end < len(data) and data[start : end + 1] in self._kept:
            end += 1
        if end > start:
            return data[start:end], end - start
        found = self._charsmap.longest(data, start) if self._charsmap else None
        if found:
            return found[1], found[0]
        return utf8.first_character(data, start)

    def _with_spaces(self, data: bytes) -> bytes:
        if self._merge_spaces:
            return b"".join(SPACE_BYTES + word for word in data.split(b" ") if word)
        if self._add_space_prefix and data.strip(b" "):
            first = len(data) - len(data.lstrip(b" "))
            data = data[:first] + b" " + data[first:]
        return data.replace(b" ", SPACE_BYTES)
