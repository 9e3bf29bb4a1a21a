"""The models that benchmarks run on: real layout, sane values, a vocabulary that both runtimes read."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from gguf import quants

from benchmarks.blocks import random_blocks
from benchmarks.mixtures import MIXTURES
from benchmarks.synthetic import LLAMA_1B, frequency_factors, write_model
from chenxing.gguf import open_gguf
from chenxing.quants.base import GGML_TYPES
from chenxing.tokenizer import load_tokenizer

TINY = dataclasses.replace(LLAMA_1B, n_embd=256, n_layer=8, n_head=4, n_head_kv=1, n_ff=512, n_vocab=1024, n_ctx=2048)


@pytest.mark.parametrize("kind", [Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q6_K, Type.Q8_0])
def test_random_blocks_have_the_wanted_spread(kind: Type) -> None:
    blocks = random_blocks(np.random.default_rng(1), (64, 2048), 0.02, kind)
    weights = quants.dequantize(blocks, kind)
    assert weights.shape == (64, 2048) and np.isfinite(weights).all()
    # 3 %: of 131,072 drawn values and 512 drawn scales
    assert np.std(weights) == pytest.approx(0.02, rel=0.03)
    assert abs(np.mean(weights)) < 0.001


@pytest.mark.parametrize("mixture", MIXTURES)
def test_a_model_has_the_types_of_its_mixture(mixture: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_model(path, mixture, TINY)
    model = open_gguf(path)
    types = {name: GGML_TYPES[t.ggml_type].name for name, t in model.tensors.items()}
    layer = [{n.split(".")[2]: kind for n, kind in types.items() if n.startswith(f"blk.{i}.")} for i in range(8)]
    assert all(kind == "F32" for name, kind in types.items() if "norm" in name or name == "rope_freqs.weight")
    if mixture == "Q4_K_M":  # by llama.cpp's rule for 8 layers: 0, 3, 6 (every third from 1 on) and the last
        assert [i for i in range(8) if layer[i]["attn_v"] == "Q6_K"] == [0, 3, 6, 7]
        assert [i for i in range(8) if layer[i]["ffn_down"] == "Q6_K"] == [0, 3, 6, 7]
        assert {layer[i][n] for i in range(8) for n in ("attn_q", "attn_k", "attn_output", "ffn_up")} == {"Q4_K"}
    elif mixture == "Q2_K":
        kinds = {"attn_q": "Q2_K", "attn_k": "Q2_K", "attn_v": "Q4_K", "attn_output": "Q3_K", "ffn_gate": "Q2_K"}
        assert all(kinds.items() <= names.items() for names in layer) and layer[0]["ffn_down"] == "Q3_K"
    else:
        assert {kind for name, kind in types.items() if kind != "F32"} == {mixture}
    assert types["token_embd.weight"] == ("Q8_0" if mixture == "Q8_0" else "Q6_K")
    assert not list(tmp_path.glob("*.part"))


def test_texts_come_back_from_the_made_up_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    write_model(path, "Q8_0", TINY)
    tokenizer = load_tokenizer(open_gguf(path))
    text = "abc ab, 晨星 12345!\n"
    ids = tokenizer.encode(text, add_special=True)
    assert ids[0] == tokenizer.bos_id == TINY.n_vocab - 256
    assert tokenizer.decode(ids[1:]).decode() == text
    assert tokenizer.encode("ab", add_special=False) == [256 + 1]  # the second two-letter string


def test_the_same_model_is_written_twice(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_model(tmp_path / name, "Q2_K", TINY)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_frequency_factors_run_from_one_to_the_stretch() -> None:
    factors = frequency_factors(LLAMA_1B)
    assert factors.shape == (32,) and factors[0] == 1 and factors[-1] == 32
    assert (np.diff(factors) >= 0).all()
