"""One byte for each character, so that a regular expression over categories runs on bytes.

llama.cpp matches most of its pre-tokenizer expressions on text in which ASCII stays as it is and every other character
is replaced by a byte for its category; other white space is a vertical tab. The same is done here in one table look-up
for the whole text. Two bytes more than llama.cpp's tell Han and the two joiners from their categories, which its
hand-written splitters ask for.

Source  llama.cpp b11434, src/unicode.cpp: unicode_regex_split, unicode_cpt_is_han
"""

import re
from functools import cache

import numpy as np

from chenxing.tokenizer.unicode_data import RUNS

N_CODE_POINTS = 0x110000

OTHER, NUMBER, LETTER, PUNCTUATION, MARK, SYMBOL = 0xD0, 0xD1, 0xD2, 0xD3, 0xD4, 0xD5
HAN_LETTER, HAN_UNASSIGNED, JOINER = 0xD6, 0xD7, 0xD8
_WHITESPACE_BYTE = 0x0B

_CLASS_OF_CATEGORY = {"N": NUMBER, "L": LETTER, "P": PUNCTUATION, "M": MARK, "S": SYMBOL}
_WHITESPACE = [0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
_HAN = [
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF), (0x2CEB0, 0x2EBEF), (0x2F800, 0x2FA1F),
]  # fmt: skip


@cache
def categories() -> np.ndarray:
    """u8[N_CODE_POINTS]: the ASCII letter of each code point's general category, - where none is assigned."""
    runs = re.findall(r"([A-Z-])(\d+)", RUNS)
    letters = np.frombuffer("".join(letter for letter, _ in runs).encode(), np.uint8)
    table = np.repeat(letters, [int(n) for _, n in runs])
    assert len(table) == N_CODE_POINTS
    return table


@cache
def _classes() -> np.ndarray:
    """u8[N_CODE_POINTS]: the byte of each code point."""
    by_category = np.full(256, OTHER, np.uint8)
    for letter, byte in _CLASS_OF_CATEGORY.items():
        by_category[ord(letter)] = byte
    table = by_category[categories()]
    table[:128] = np.arange(128)
    table[_WHITESPACE] = _WHITESPACE_BYTE
    for first, last in _HAN:
        block = table[first : last + 1]
        block[:] = np.where(block == LETTER, HAN_LETTER, HAN_UNASSIGNED)
    table[[0x200C, 0x200D]] = JOINER
    return table


def code_points(text: str) -> np.ndarray:
    """u32[len(text)]"""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")


def collapse(text: str) -> bytes:
    """The byte of each character of text."""
    if text.isascii():
        return text.encode()
    return _classes()[code_points(text)].tobytes()


def plain_spaces(text: str) -> str:
    """text with white space beyond ASCII as vertical tabs: what expressions without categories are matched on."""
    if text.isascii():
        return text
    points = code_points(text)
    is_space = _classes()[points] == _WHITESPACE_BYTE
    return np.where(is_space, np.uint32(_WHITESPACE_BYTE), points).tobytes().decode("utf-32-le", "surrogatepass")
