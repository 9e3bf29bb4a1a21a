"""GPT-2's spelling of bytes as printable characters, which token texts of byte-level vocabularies are written in.

Source  openai/gpt-2, src/encoder.py: bytes_to_unicode; llama.cpp b11434, src/llama-vocab.cpp: llama_decode_text
"""

from chenxing.tokenizer import utf8

_PRINTABLE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
_CHARACTERS = [chr(byte if byte in _PRINTABLE else 256 + _OTHERS.index(byte)) for byte in range(256)]
_BYTES = {character: byte for byte, character in enumerate(_CHARACTERS)}
# to Latin-1, whose characters are bytes; U+FFFF, which it has not, for characters that spell no byte
_TO_LATIN_1 = str.maketrans({chr(code): "\uffff" for code in range(256)} | {c: chr(byte) for c, byte in _BYTES.items()})

BYTE_TEXTS = [character.encode() for character in _CHARACTERS]
"""The text of each byte."""


def to_byte_text(data: bytes) -> bytes:
    """data spelt out, as UTF-8."""
    return b"".join(map(BYTE_TEXTS.__getitem__, data))


def from_byte_text(text: bytes) -> bytes:
    """The bytes that a token's text stands for; where it is no such spelling, llama.cpp's complaint."""
    try:
        return text.decode().translate(_TO_LATIN_1).encode("latin-1")
    except UnicodeError:
        return _with_complaints(text)


def _with_complaints(text: bytes) -> bytes:
    data = bytearray()
    for character in utf8.decode(text):
        byte = _BYTES.get(character)
        if byte is None:
            data += b"[UNK_BYTE_0x" + utf8.to_bytes(character).hex().encode() + text + b"]"
        else:
            data.append(byte)
    return bytes(data)
