"""The compiled normaliser: the small one of ugm.gguf, whose replacements are known."""

import pytest

from chenxing.errors import TokenizerError
from chenxing.gguf import open_gguf
from chenxing.tokenizer.charsmap import CharsMap
from chenxing.tokenizer.normalizer import Normalizer


@pytest.fixture
def blob(data) -> bytes:
    return open_gguf(data / "ugm.gguf").metadata["tokenizer.ggml.precompiled_charsmap"].tobytes()


def test_longest_prefix(blob: bytes) -> None:
    charsmap = CharsMap(blob)
    text = "a\u0308\u0304b½e".encode()
    assert charsmap.longest(text, 0) == (5, "ǟ".encode())
    assert charsmap.longest(text, 5) is None
    assert charsmap.longest(text, 6) == (2, b"1/2")
    assert charsmap.longest(text, 8) is None
    assert charsmap.longest("\u00ad".encode(), 0) == (2, b"")


def test_plain_bytes_are_those_that_no_key_begins_with(blob: bytes) -> None:
    plain = CharsMap(blob).plain
    assert b"e" in plain and b"\t" not in plain and b"\x01" not in plain and b"\0" not in plain


def test_every_truncation_and_every_pointer_beyond_is_refused(blob: bytes) -> None:
    text = "a\u0308\u0304½ﬁ\t".encode()
    n = int.from_bytes(blob[:4], "little")
    with pytest.raises(TokenizerError, match="damaged"):
        CharsMap(blob[: n + 4])
    for place in range(4, len(blob), 97):
        damaged = bytearray(blob)
        damaged[place : place + 4] = b"\xff\xff\xff\x7f"
        try:
            charsmap = CharsMap(bytes(damaged))
            for start in range(len(text)):
                charsmap.longest(text, start)
        except TokenizerError as error:
            assert "damaged" in str(error)


def test_normalizer_spaces(blob: bytes) -> None:
    charsmap = CharsMap(blob)
    assert Normalizer(charsmap, [], False, True).normalize("  ½\tﬁ ".encode()) == "▁1/2▁fi"
    assert Normalizer(charsmap, [], True, False).normalize(b"  a b") == "▁▁▁a▁b"
    assert Normalizer(charsmap, [], False, False).normalize(b" a  b") == "▁a▁▁b"
    assert Normalizer(None, [], False, False).normalize("½\xff".encode("latin-1")) == "\ufffd\ufffd"


def test_user_defined_texts_and_their_beginnings_are_kept(blob: bytes) -> None:
    normalizer = Normalizer(CharsMap(blob), ["½½x".encode()], False, False)
    assert normalizer.normalize("½½x ½½y ½".encode()) == "½½x▁½½y▁½"
