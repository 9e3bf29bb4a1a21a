"""Cutting out special tokens, against llama.cpp's way: token by token, fragment by fragment."""

import random
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from chenxing.tokenizer import special as special_module
from chenxing.tokenizer.special import SpecialTokens
from chenxing.tokenizer.vocabulary import Attr, Vocabulary


def _vocabulary(tokens: dict[bytes, Attr]) -> Vocabulary:
    texts, attrs = list(tokens), np.array([int(attr) for attr in tokens.values()], np.uint16)
    return SimpleNamespace(  # type: ignore[return-value]
        text=texts.__getitem__, attrs=attrs, ids=lambda attr: np.flatnonzero(attrs & np.uint16(attr)).tolist()
    )


def _pieces(special: SpecialTokens, data: bytes, parse_special: bool, guards: Sequence[int] = ()) -> list[bytes | int]:
    """What partition's spans are, which must follow each other."""
    spans = special.partition(data, parse_special, guards)
    assert [0, *(span.end for span in spans)] == [*(span.start for span in spans), len(data)]
    return [data[span.start : span.end] if span.token is None else span.token for span in spans]


def _naive(tokens: dict[bytes, Attr], data: bytes, parse_special: bool) -> list[bytes | int]:
    fragments: list[bytes | int] = [data] if data else []
    order = sorted(enumerate(tokens.items()), key=lambda item: (-len(item[1][0]), item[0]))
    for token, (text, attr) in order:
        if attr & (Attr.CONTROL | Attr.UNKNOWN) and not parse_special:
            continue
        found: list[bytes | int] = []
        for fragment in fragments:
            while isinstance(fragment, bytes) and text in fragment:
                before, _, fragment = fragment.partition(text)
                before = before.rstrip() if attr & Attr.LSTRIP else before
                fragment = fragment.lstrip() if attr & Attr.RSTRIP else fragment
                found += [before, token] if before else [token]
            if fragment != b"":
                found.append(fragment)
        fragments = found
    return fragments


def test_random_texts_and_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    kinds = [Attr.CONTROL, Attr.UNKNOWN, Attr.USER_DEFINED, Attr.USER_DEFINED | Attr.CONTROL]
    for _ in range(250):
        texts = {bytes(rng.choices(b"ab<> \n", k=rng.randrange(1, 6))) for _ in range(rng.randrange(1, 12))}
        tokens = {}
        for text in sorted(texts):
            attr = rng.choice(kinds)
            if text.strip():  # no real vocabulary strips beside white space
                attr |= rng.choice([Attr(0), Attr(0), Attr.LSTRIP, Attr.RSTRIP])
            tokens[text] = attr
        special = SpecialTokens(_vocabulary(tokens))
        for _ in range(10):
            monkeypatch.setattr(special_module, "_WINDOW", rng.choice([1, 2, 3, 8, 64]))
            data = bytes(rng.choices(b"aab<<>> \n", k=rng.randrange(0, 40)))
            for parse_special in (False, True):
                assert _pieces(special, data, parse_special) == _naive(tokens, data, parse_special), (tokens, data)


def test_longer_tokens_come_first_wherever_they_stand() -> None:
    special = SpecialTokens(_vocabulary({b"abc": Attr.USER_DEFINED, b"cdef": Attr.USER_DEFINED}))
    assert _pieces(special, b"abcdefabc", False) == [b"ab", 1, 0]


def test_no_tokens_and_no_text() -> None:
    special = SpecialTokens(_vocabulary({b"x": Attr.NORMAL}))
    assert _pieces(special, b"x", True) == [b"x"]
    assert _pieces(special, b"", True) == []


def test_no_token_reaches_across_a_guard() -> None:
    special = SpecialTokens(
        _vocabulary({b"<e>": Attr.CONTROL, b"<|u|>": Attr.USER_DEFINED, b"\n\n": Attr.USER_DEFINED})
    )
    assert _pieces(special, b"<e><e>", True, [1]) == [b"<e>", 0]
    assert _pieces(special, b"<e><e>", True, [0, 3, 6]) == [0, 0]
    assert _pieces(special, b"<|u|>\n\n", False, [2]) == [b"<|u|>", 2]
    assert _pieces(special, b"<|u|>\n\n", False, [5, 6]) == [1, b"\n\n"]
