"""Metadata -> hyperparameters: windows, lengths of rotation, experts, and the refusal of what no architecture reads."""

import math
from pathlib import Path
from typing import Any

import gguf
import pytest
from reference.hparams import SWA_PERIOD
from reference.hparams import read_hparams as reference_hparams
from reference.toy_file import Shape, Toy
from reference.toys import LONGROPE, LONGROPE_FACTORS, YARN

from chenxing.errors import ModelFileError, UnsupportedModelError
from chenxing.gguf import GGUF, open_gguf
from chenxing.models.hparams import NEUTRAL
from chenxing.models.model import read_model

SMALL = Shape(n_layer=7, n_embd=32, n_head=2, n_head_kv=1, n_embd_head=16, n_ff=32)
EXPERTS = Shape(n_layer=1, n_embd=32, n_head=2, n_head_kv=1, n_embd_head=16, n_ff=32, n_expert=4)
GRANITE = {"logit_scale": 2.0}


def toy(folder: Path, arch: str, metadata: dict[str, Any], shape: Shape = SMALL, **options: Any) -> GGUF:
    own = {**(GRANITE if arch == "granite" else {}), **metadata}
    return open_gguf(Toy("toy", arch, shape, own, **options).write(folder))


@pytest.mark.parametrize("arch", ["llama", *SWA_PERIOD])
@pytest.mark.parametrize("pattern", [None, 0, 1, 3, [True, False, False, True, True, False, True]], ids=str)
def test_windows_are_llama_cpps(arch: str, pattern: Any, tmp_path: Path) -> None:
    metadata = {"attention.sliding_window": 24}
    if pattern is not None:
        metadata["attention.sliding_window_pattern"] = pattern
    found = read_model(toy(tmp_path, arch, metadata)).extra
    assert found["n_swa"] == 24
    if arch == "llama":  # which llama.cpp runs without windows; Mistral 7B has one in every layer, period 0
        arch, metadata = "gemma3", {"attention.sliding_window_pattern": 0, **metadata}
    assert found["is_swa"] == reference_hparams(complete(arch, metadata)).is_swa


def complete(arch: str, own: dict[str, Any]) -> dict[str, Any]:
    """As a file's metadata, with what every file has."""
    keys = {
        "context_length": 2048,
        "block_count": SMALL.n_layer,
        "embedding_length": SMALL.n_embd,
        "attention.head_count": SMALL.n_head,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }
    return {"general.architecture": arch} | {f"{arch}.{key}": value for key, value in (keys | own).items()}


def test_default_windows(tmp_path: Path) -> None:
    """Gemma 2 has one that its files need not name; the others have none then."""
    assert read_model(toy(tmp_path, "gemma2", {})).extra["n_swa"] == 4096
    assert sum(read_model(toy(tmp_path, "gemma2", {})).extra["is_swa"]) == 4
    for arch in ("llama", "gemma3", "olmo2"):
        assert not any(read_model(toy(tmp_path, arch, {})).extra["is_swa"])


def test_a_pattern_of_other_length_is_refused(tmp_path: Path) -> None:
    metadata = {"attention.sliding_window": 24, "attention.sliding_window_pattern": [True, False]}
    with pytest.raises(ModelFileError, match="a flag for each of 7 layers, found 2"):
        read_model(toy(tmp_path, "gemma3", metadata))


@pytest.mark.parametrize(
    ("own", "length"),
    [
        ({}, 0.1 * math.log(4) + 1),
        ({"yarn_attn_factor": 1.25}, 1.25),
        ({"yarn_log_multiplier": 1.0}, 1.0),
        ({"yarn_log_multiplier": 0.5}, (0.1 * math.log(4) + 1) / (0.05 * math.log(4) + 1)),
        ({"attn_factor": 2.0}, 2 * (0.1 * math.log(4) + 1)),
    ],
    ids=str,
)
def test_yarns_length(own: dict[str, float], length: float, tmp_path: Path) -> None:
    metadata = {**YARN, **{f"rope.scaling.{key}": value for key, value in own.items()}}
    found = read_model(toy(tmp_path, "qwen2", metadata)).rope.mscale
    assert found == pytest.approx(length, rel=1e-6)  # numbers are f32 in the file


def test_long_context_begins_beyond_the_original_one(tmp_path: Path) -> None:
    model = toy(tmp_path, "phi3", LONGROPE, factors=LONGROPE_FACTORS)
    assert not read_model(model, 256).long_context
    assert read_model(model, 257).long_context
    assert read_model(model).long_context  # the model's own 2048
    assert not read_model(toy(tmp_path, "phi3", {**LONGROPE}), 512).long_context


def test_experts_are_counted(tmp_path: Path) -> None:
    hp = read_model(toy(tmp_path, "qwen3moe", {"expert_feed_forward_length": 64}, EXPERTS))
    assert (hp.extra["n_expert"], hp.extra["n_expert_used"], hp.extra["n_ff"]) == (4, 2, 64)
    assert read_model(toy(tmp_path, "qwen3moe", {}, EXPERTS)).extra["n_ff"] == 16  # half of 32: two are used
    for n in (0, 5):
        with pytest.raises(ModelFileError, match=f"expert_used_count: expected 1 to 4 experts, found {n}"):
            read_model(toy(tmp_path, "llama", {"expert_used_count": n}, EXPERTS))
    with pytest.raises(ModelFileError, match=r"expert_count: expected at least one expert"):
        read_model(toy(tmp_path, "qwen3moe", {}))


def test_gemma2s_default_caps(tmp_path: Path) -> None:
    """That of scores is too wide to show in a toy's logits."""
    extra = read_model(toy(tmp_path, "gemma2", {})).extra
    assert (extra["attn_softcap"], extra["final_softcap"]) == (50.0, 30.0)


def test_granite_cannot_divide_logits_by_nothing(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="logit_scale"):
        read_model(toy(tmp_path, "granite", {"logit_scale": 0.0}))


@pytest.mark.parametrize("key", NEUTRAL)
def test_keys_that_change_the_maths_are_refused(key: str, tmp_path: Path) -> None:
    """By an architecture that does not read them; their neutral values are no obstacle."""
    value = next(iter(NEUTRAL[key]))
    other = (not value) if isinstance(value, bool) else value + 3
    if key == "expert_count":
        read_model(toy(tmp_path, "qwen2", {key: 0}))
    else:
        read_model(toy(tmp_path, "qwen2", {key: value}))
    with pytest.raises(UnsupportedModelError, match=f"qwen2.{key} is"):
        read_model(toy(tmp_path, "qwen2", {key: other}))


def test_every_refused_key_is_one_of_ggufs() -> None:
    """A misspelt key would refuse nothing."""
    names = {
        value.removeprefix("{arch}.")
        for group in (gguf.constants.Keys.LLM, gguf.constants.Keys.Attention, gguf.constants.Keys.Rope)
        for value in vars(group).values()
        if isinstance(value, str)
    }
    assert set(NEUTRAL) <= names


@pytest.mark.parametrize("key", ["attention.key_length_swa", "rope.dimension_count_swa"])
def test_window_layers_have_the_same_heads(key: str, tmp_path: Path) -> None:
    read_model(toy(tmp_path, "gemma3", {key: 16}))
    with pytest.raises(UnsupportedModelError, match=key):
        read_model(toy(tmp_path, "gemma3", {key: 8}))


def test_a_list_of_values_is_refused_for_any_of_them(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedModelError, match="swiglu_clamp_exp"):
        read_model(toy(tmp_path, "qwen2", {"swiglu_clamp_exp": [0.0] * 6 + [7.0]}))
