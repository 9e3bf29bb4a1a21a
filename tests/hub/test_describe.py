import math

import pytest
from tiny_models import write_tiny_gguf, write_tiny_shards

from chenxing.errors import ModelFileError
from chenxing.hub.describe import TypeShare, describe_file


def test_what_the_file_says(tmp_path):
    content = write_tiny_gguf(tmp_path / "tiny.gguf", template="{{ '<|im_start|>' }}")
    facts = describe_file(tmp_path / "tiny.gguf")
    assert facts.paths == (tmp_path / "tiny.gguf",)
    assert facts.n_bytes == len(content)
    assert facts.types == (
        TypeShare("F32", 1, 64 * 256, 64 * 256 * 4),
        TypeShare("Q8_0", 1, 4 * 256, 4 * 256 // 32 * 34),
    )
    assert facts.n_params == 68 * 256
    assert (facts.title, facts.architecture, facts.quant, facts.licence) == ("Tiny", "llama", "Q8_0", "MIT")
    assert (facts.n_ctx_train, facts.n_embd, facts.n_layer, facts.n_head) == (2048, 256, 3, 4)
    assert facts.n_head_kv == (2, 2, 1)
    assert (facts.n_vocab, facts.tokenizer) == (3, "gpt2 (smollm)")
    assert (facts.templates, facts.template_family) == (("default",), "chatml")
    assert facts.sampling == {"temp": 0.5}


def test_split_models_are_described_whole(tmp_path):
    shards = write_tiny_shards(tmp_path / "tiny.gguf")
    facts = describe_file(tmp_path / "tiny-00001-of-00002.gguf")
    assert [path.name for path in facts.paths] == sorted(shards)
    assert facts.n_bytes == sum(map(len, shards.values()))
    assert facts.n_params == 68 * 256


def test_a_base_model(tmp_path):
    write_tiny_gguf(tmp_path / "tiny.gguf")
    facts = describe_file(tmp_path / "tiny.gguf")
    assert (facts.templates, facts.template_family) == ((), None)


def test_what_is_no_gguf(tmp_path):
    (tmp_path / "x.gguf").write_bytes(b"<html>")
    with pytest.raises(ModelFileError):
        describe_file(tmp_path / "x.gguf")


@pytest.mark.model
def test_smollm2(smollm2_path):
    facts = describe_file(smollm2_path)
    assert (facts.architecture, facts.quant, facts.n_params) == ("llama", "Q4_1", 134_515_008)
    assert (facts.n_ctx_train, facts.n_layer, facts.n_head, facts.n_head_kv) == (8192, 30, 9, 3)
    assert facts.template_family == "chatml"
    assert [share.type for share in facts.types] == ["Q4_1", "Q8_0", "F32"]


@pytest.mark.model
def test_gemma3(gemma3_path):
    facts = describe_file(gemma3_path)
    assert (facts.architecture, facts.quant, facts.n_vocab) == ("gemma3", "Q4_K_M", 262_144)
    assert [share.type for share in facts.types] == ["Q8_0", "Q5_0", "Q4_K", "Q6_K", "F32"]
    # what is not tensor data is the metadata, in this file most of all the vocabulary, and padding
    assert 0 < facts.n_bytes - sum(share.n_bytes for share in facts.types) < 8_000_000
    assert math.isclose(facts.n_params, 268_098_176)
    assert facts.templates == ()
