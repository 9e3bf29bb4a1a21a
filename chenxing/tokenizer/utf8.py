"""Text and bytes. Invalid UTF-8 is never refused: it is read as llama.cpp reads it.

llama.cpp decodes leniently: overlong forms and surrogates count as the code point that their bits spell, any other
byte that starts no sequence counts as one U+FFFD. Python's strict decoder finds the places at full speed and the
handler below reads them.

Source  llama.cpp b11434, src/unicode.cpp: unicode_cpt_from_utf8, unicode_cpts_from_utf8, unicode_len_utf8
"""

import codecs
import re

REPLACEMENT = "\ufffd"
_LONE_SURROGATES = re.compile("[\ud800-\udfff]")
_HANDLER, _OPAQUE_HANDLER = "chenxing.lenient", "chenxing.opaque"

# by the high four bits of a first byte; llama.cpp does not look at the bytes that follow
_LENGTHS = (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4)


def encode(text: str) -> bytes:
    """UTF-8 of text. U+DC80..U+DCFF become the bytes that surrogateescape made them from, other surrogates U+FFFD."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        escaped = _LONE_SURROGATES.sub(lambda m: m[0] if "\udc80" <= m[0] <= "\udcff" else REPLACEMENT, text)
        return escaped.encode("utf-8", "surrogateescape")


def decode(data: bytes) -> str:
    """The code points that llama.cpp sees. Four bytes that spell more than U+10FFFF, which it rejects, are U+FFFD."""
    return data.decode("utf-8", _HANDLER)


def decode_valid(data: bytes) -> str:
    """As `decode`, but a sequence that is no UTF-8 is one U+DC80 for all its bytes, so that it equals no character."""
    return data.decode("utf-8", _OPAQUE_HANDLER)


def to_bytes(text: str) -> bytes:
    """The bytes that llama.cpp spells code points with: surrogates as three bytes."""
    return text.encode("utf-8", "surrogatepass")


def split_characters(data: bytes) -> list[bytes]:
    """data in pieces as long as their first bytes say, whatever follows; the last may be cut short."""
    pieces, start = [], 0
    while start < len(data):
        end = start + _LENGTHS[data[start] >> 4]
        pieces.append(data[start:end])
        start = end
    return pieces


def first_character(data: bytes, start: int) -> tuple[bytes, int]:
    """(the bytes of the character at start, how many there are); for a byte that starts none, (U+FFFD, 1)."""
    length = _sequence_length(data, start)
    return (data[start : start + length], length) if length else (REPLACEMENT.encode(), 1)


def _sequence_length(data: bytes, start: int) -> int:
    """Bytes of the sequence at start; 0 if there is none."""
    first = data[start]
    if first < 0x80:
        return 1
    length = 2 if 0xC0 <= first < 0xE0 else 3 if 0xE0 <= first < 0xF0 else 4 if 0xF0 <= first < 0xF8 else 0
    rest = data[start + 1 : start + length]
    return 0 if len(rest) < length - 1 or any(byte & 0xC0 != 0x80 for byte in rest) else length


def _read_one(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    data, start = error.object, error.start
    length = _sequence_length(data, start)
    if not length:
        return REPLACEMENT, start + 1
    code_point = data[start] & (0x7F >> length)
    for byte in data[start + 1 : start + length]:
        code_point = code_point << 6 | byte & 0x3F
    return chr(code_point) if code_point <= 0x10FFFF else REPLACEMENT, start + length


def _skip_one(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\udc80", error.start + (_sequence_length(error.object, error.start) or 1)


codecs.register_error(_HANDLER, _read_one)
codecs.register_error(_OPAQUE_HANDLER, _skip_one)
