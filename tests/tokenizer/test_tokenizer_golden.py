"""Ids, texts and special tokens that llama.cpp b11549 makes; tests/peers/test_tokenizer_peer.py writes the files."""

import json
from pathlib import Path

import pytest

from chenxing.gguf import open_gguf
from chenxing.tokenizer import Tokenizer, load_tokenizer
from chenxing.tokenizer.pretokenizers import PRE_TOKENIZERS


def _texts(data: Path) -> list[bytes]:
    return [text.encode(errors="surrogateescape") for text in json.loads((data / "texts.json").read_text())]


def _check(tokenizer: Tokenizer, golden: dict, texts: list[bytes]) -> None:
    for text, plain, parsed in zip(texts, golden["plain"], golden["parsed"], strict=True):
        assert tokenizer.encode(text) == plain, text
        assert tokenizer.encode(text, add_special=False, parse_special=True) == parsed, text
    for special, key in ((False, "decoded"), (True, "decoded_special")):
        for ids, expected in zip(golden["parsed"], golden[key], strict=True):
            assert tokenizer.decode(ids, special=special) == expected.encode(errors="surrogateescape"), ids
    assert {name: getattr(tokenizer, name) for name in golden["identities"]} == golden["identities"]
    assert tokenizer.eog_ids == set(golden["eog_ids"])


@pytest.mark.parametrize("name", ["bpe", "gemma4", "spm", "ugm", "wpm"])
def test_small_vocabulary(name: str, load, data: Path) -> None:
    golden = json.loads((data / f"golden_{name}.json").read_text())
    tokenizer = load(name)
    _check(tokenizer, golden, _texts(data))
    _check(tokenizer, golden, _texts(data))  # and from the word cache
    _check(load(name), golden, _texts(data))  # and from the tables on disk


@pytest.mark.model
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_real_model(name: str, data: Path, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(f"{name}_path")
    _check(load_tokenizer(open_gguf(path)), json.loads((data / f"golden_{name}.json").read_text()), _texts(data))


def test_pre_tokenizers(load, data: Path) -> None:
    groups = json.loads((data / "golden_pre_tokenizers.json").read_text())
    assert {name for group in groups for name in group.split()} == set(PRE_TOKENIZERS)
    texts = _texts(data)
    for group, expected in groups.items():
        for name in group.split():
            tokenizer = load("bpe", pre=name)
            assert [tokenizer.encode(text) for text in texts] == expected, name


def test_a_str_is_its_bytes(load, data: Path) -> None:
    tokenizer = load("spm")
    for text in json.loads((data / "texts.json").read_text()):
        assert tokenizer.encode(text) == tokenizer.encode(text.encode(errors="surrogateescape"))
    assert tokenizer.encode("a\ud800b") == tokenizer.encode("a\ufffdb")
