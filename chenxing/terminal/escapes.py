r"""Escape sequences in texts of the command line as llama.cpp reads them: \n \r \t \' \" \\ \xHH; others stay.

Source: llama.cpp b11434, string_process_escapes in common/common.cpp (the behaviour of its -e/--escape, on by default).
"""

import re

_ESCAPE = re.compile(rb"""\\(?:([nrt'"\\])|x([0-9A-Fa-f]{2}))""")
_PLAIN = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"'": b"'", b'"': b'"', b"\\": b"\\"}


def unescape(text: str) -> str:
    r"""`text` with its escapes replaced. \xHH is a byte of UTF-8; bytes that are no UTF-8 become U+FFFD."""
    return unescape_bytes(text.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")


def unescape_bytes(data: bytes) -> bytes:
    r"""The same on bytes, where \xHH may give any byte."""
    return _ESCAPE.sub(lambda m: _PLAIN[m[1]] if m[1] else bytes([int(m[2], 16)]), data)
