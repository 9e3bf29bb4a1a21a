"""What a file may say about its tokenizer, and what is refused."""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chenxing.errors import ModelFileError, TokenizerError, UnsupportedModelError
from chenxing.gguf import open_gguf
from chenxing.tokenizer import load_tokenizer


def test_unknown_tokenizer_model_names_the_known_ones(load) -> None:
    with pytest.raises(
        UnsupportedModelError, match=r"'rwkv' is not supported. Known are bert, gemma4, gpt2, llama, t5"
    ):
        load("bpe", model="rwkv")


def test_unknown_pre_tokenizer_names_the_known_ones(load) -> None:
    with pytest.raises(UnsupportedModelError, match=r"pre-tokenizer 'martian' is not supported. Known are .*llama-bpe"):
        load("bpe", pre="martian")


def test_missing_pre_tokenizer_warns_and_is_the_default(load, caplog: pytest.LogCaptureFixture) -> None:
    text = "It's 12345 <stars>!"
    with caplog.at_level(logging.WARNING):
        ids = load("bpe", pre=None).encode(text)
    assert "names no pre-tokenizer" in caplog.text
    assert ids == load("bpe", pre="default").encode(text)


@pytest.mark.parametrize("key", ["model", "tokens", "merges"])
def test_missing_keys(load, key: str) -> None:
    with pytest.raises(ModelFileError, match=f"tokenizer.ggml.{key}"):
        load("bpe", **{key: None})


def test_kimi_k2_needs_no_merges(load) -> None:
    tokenizer = load("bpe", pre="kimi-k2", merges=None)
    assert tokenizer.encode("the") == [tokenizer.find(letter) for letter in "the"]


def test_types_that_are_none(load) -> None:
    n = load("spm").n_vocab
    tokenizer = load("spm", token_type=np.array([7, -1, 300] + [1] * (n - 3), np.int32))
    assert [tokenizer.token_type(token).name for token in range(4)] == ["UNDEFINED"] * 3 + ["NORMAL"]
    assert tokenizer.token_bytes(0) == b""


@pytest.mark.parametrize(("key", "value"), [
    ("token_type", np.ones(7, np.int32)),
    ("token_type", np.ones(5000, np.float32)),
    ("scores", np.ones(7, np.float32)),
])  # fmt: skip
def test_arrays_that_do_not_fit(load, key: str, value: np.ndarray) -> None:
    with pytest.raises(ModelFileError, match=f"tokenizer.ggml.{key}.*one for each token"):
        load("spm", **{key: value})


def test_two_tokens_of_one_text(load, data: Path) -> None:
    merges = open_gguf(data / "bpe.gguf").metadata["tokenizer.ggml.merges"]  # a list of strings that has one twice
    with pytest.raises(TokenizerError, match=r"tokens 3 and \d+ are both"):
        load("bpe", tokens=merges, token_type=None)


def test_add_bos_and_eos(load) -> None:
    plain = load("spm").encode("star", add_special=False)
    both = load("spm", add_eos_token=True)
    assert both.encode("star") == [both.bos_id, *plain, both.eos_id] and both.add_bos and both.add_eos
    neither = load("spm", add_bos_token=False)
    assert neither.encode("star") == plain and not neither.add_bos
    assert load("spm").encode("") == [1] and load("spm").encode("", add_special=False) == []


def test_names_of_pre_tokenizers_set_defaults(load) -> None:
    assert load("bpe", pre="llama-bpe").add_bos and not load("bpe", pre="qwen2").add_bos
    assert not load("bpe", pre="llama-bpe", add_bos_token=False).add_bos
    assert load("bpe", pre="jina-v2-code").add_sep
    assert load("bpe", pre="glm4", bos_token_id=None).bos_id is None
    assert load("bpe", bos_token_id=None).bos_id == 11
    assert load("gemma4", add_bos_token=False).add_bos


def test_ids_out_of_range_are_none_or_the_default(load) -> None:
    assert load("spm", bos_token_id=10**6).bos_id == 1
    assert load("spm", padding_token_id=10**6).pad_id is None


def test_space_prefix_follows_special_tokens(load) -> None:
    tokenizer = load("spm")
    end = tokenizer.find("<end_of_turn>")
    ids = tokenizer.encode("star<end_of_turn>star", add_special=False, parse_special=True)
    star = tokenizer.encode("star", add_special=False)
    assert ids == [*star, end, *star]
    bare = load("spm", add_space_prefix=False)
    assert bare.encode("star", add_special=False) != star
    assert bare.decode(bare.encode(" star", add_special=False)) == b" star"
    assert tokenizer.decode(star) == b"star" and tokenizer.join(star) == b" star"


def test_names_of_models_strip_spaces_beside_tokens(data: Path) -> None:
    model = open_gguf(data / "spm.gguf")
    phi = load_tokenizer(replace(model, metadata=model.metadata | {"general.name": "Phi-3 mini"}))
    text = "a <end_of_turn> \n\tb <s> c"
    assert (
        phi.join(phi.encode(text, parse_special=True, add_special=False), special=True) == b" a <end_of_turn> b <s>  c"
    )


def test_bert_normaliser_keys(load) -> None:
    assert load("wpm").encode("STÄR") == load("wpm").encode("star")
    cased = load("wpm", **{"normalizer.lowercase": False})
    assert cased.encode("star") == load("wpm").encode("star")
    assert cased.encode("STAR") != cased.encode("star")
    accents = load("wpm", **{"normalizer.strip_accents": False})
    assert accents.encode("Ä") == accents.encode("ä") != accents.encode("a")


def test_unigram_space_rules(load) -> None:
    tokens = load("ugm")
    assert tokens.encode("a  b ") == tokens.encode(" a b")
    kept = load("ugm", remove_extra_whitespaces=False)
    assert kept.encode("a  b") != kept.encode("a b")
    bare = load("ugm", remove_extra_whitespaces=False, add_space_prefix=False)
    assert bare.encode(" a") == kept.encode("a") != bare.encode("a")


def test_damaged_charsmap(load) -> None:
    with pytest.raises(TokenizerError, match="precompiled_charsmap is damaged"):
        load("ugm", precompiled_charsmap=np.frombuffer(b"\xff\xff\0\0abc", np.uint8))
