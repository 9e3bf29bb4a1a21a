"""Cutting text into words, and the cache of words."""

import random
import time
import unicodedata

import pytest

from chenxing.tokenizer import classes
from chenxing.tokenizer.pretokenizers import PRE_TOKENIZERS, Cut
from chenxing.tokenizer.words import _MAX_WORDS, WordCache, WordSplitter, _Expression

DIFFERENT = sorted({pre.rules: name for name, pre in PRE_TOKENIZERS.items()}.values())


def _split(pre: str, text: str) -> list[str]:
    return WordSplitter(PRE_TOKENIZERS[pre].rules).split(text)


@pytest.mark.parametrize(("pre", "text", "words"), [
    ("gpt-2", "We'll see  12 stars!\n", ["We", "'ll", " see", " ", " 12", " stars", "!", "\n"]),
    ("smollm", "x 12", ["x", " ", "1", "2"]),
    ("llama-bpe", "IT'S 1234\n\n x", ["IT", "'S", " ", "123", "4", "\n\n", " x"]),
    ("qwen2", "(star) 12", ["(star", ")", " ", "1", "2"]),
    ("gpt-4o", "CamelCASEword's //\n", ["Camel", "CASEword's", " //\n"]),
    ("tekken", "ABCdef", ["ABCdef"]),
    ("kimi-k2", "ab星星cd12345", ["ab", "星星", "cd", "123", "45"]),
    ("afmoe", "a1234567", ["a", "1", "234", "567"]),
    ("superbpe", "a1234567b", ["a", "1", "234", "567", "b"]),
    ("falcon", "a==1234", ["a", "==", "123", "4"]),
    ("gemma4", "a b\n\nc", ["a b", "\n\n", "c"]),
    ("deepseek-llm", "a b  \n12", ["a", " b", "  ", "\n", "12"]),
])  # fmt: skip
def test_words(pre: str, text: str, words: list[str]) -> None:
    assert _split(pre, text) == words


@pytest.mark.parametrize("pre", DIFFERENT)
def test_nothing_is_lost_and_the_short_cut_is_none(pre: str) -> None:
    """Rules that look at a match's neighbourhood only give what they give piece by piece."""
    rng = random.Random(2)
    splitter, slow = WordSplitter(PRE_TOKENIZERS[pre].rules), WordSplitter(PRE_TOKENIZERS[pre].rules)
    for rule in slow._rules:
        if isinstance(rule, _Expression):
            rule._is_local = False
    for _ in range(40):
        text = "".join(rng.choices("ab'sZ é\u0301日ー한١12 .!/\n\t\r\u3000\u200d🌟", k=rng.randrange(30)))
        assert "".join(splitter.split(text)) == text
        assert splitter.split(text) == slow.split(text)


@pytest.mark.parametrize("pre", DIFFERENT)
def test_no_text_takes_quadratic_time(pre: str) -> None:
    splitter = WordSplitter(PRE_TOKENIZERS[pre].rules)
    for text in ("Z", " ", "9", "\n", "日", ".", " a", "a'", "1 ", "\u0301"):
        start = time.process_time()
        splitter.split(text * 50_000)
        assert time.process_time() - start < 5, text  # some 0.05 s; 50,000 squared steps are half a minute


def test_cuts_that_are_functions() -> None:
    assert WordSplitter([Cut.TRAILING_SPACE]).split("a  \n ") == ["a", "  \n "]
    assert WordSplitter([Cut.DIGITS_FROM_RIGHT]).split("12ab3456") == ["12", "ab3", "456"]
    assert WordSplitter([Cut.ASCII_DIGITS_FROM_RIGHT]).split("٣٤123456") == ["٣٤", "123", "456"]
    assert WordSplitter([Cut.NEWLINES]).split("\n\na\nb") == ["\n\n", "a", "\n", "b"]


def test_classes_agree_with_pythons_unicode() -> None:
    """Where both know a character, but for the few whose category Unicode has changed since."""
    table = classes.categories()
    others = [
        point
        for point in range(classes.N_CODE_POINTS)
        if (category := unicodedata.category(chr(point))) != "Cn" and chr(table[point]) not in (category[0], "-")
    ]
    assert len(others) <= 8
    if unicodedata.unidata_version == "15.1.0":
        assert others == []


def test_collapsing() -> None:
    assert classes.collapse("a 1\u00a0é½!\u0301€日\ufa6e\u200d\u0000") == bytes(
        [*b"a 1\x0b", classes.LETTER, classes.NUMBER, *b"!", classes.MARK, classes.SYMBOL, classes.HAN_LETTER,
         classes.HAN_UNASSIGNED, classes.JOINER, 0]
    )  # fmt: skip
    assert classes.plain_spaces("a\u3000b\x85\x1c 日") == "a\x0bb\x0b\x1c 日"


def test_words_are_encoded_once_and_forgotten_when_too_many() -> None:
    seen: list[str] = []

    def encode(word: str) -> list[int]:
        seen.append(word)
        return [len(word)]

    cache = WordCache(encode)
    assert cache.encode(["a", "bb", "a", "c" * 100, "c" * 100]) == [1, 2, 1, 100, 100]
    assert seen == ["a", "bb", "c" * 100, "c" * 100]
    cache.encode(map(str, range(_MAX_WORDS + 10)))
    assert len(cache._ids) <= _MAX_WORDS
