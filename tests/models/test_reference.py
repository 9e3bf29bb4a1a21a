"""The judge judged: the reference agrees with llama.cpp's committed logits, and notices every part of the maths."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from reference.blocks import LAYOUTS, random_blocks
from reference.compare import log_softmax
from reference.model import Reference
from reference.toys import FLOAT_TOYS, GOLDEN, GOLDEN_ROWS, LONG_PROMPT, TOYS, prompt, tolerance


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDEN) as file:
        return dict(file)


@cache
def right_logits(name: str) -> np.ndarray:
    with TemporaryDirectory() as folder:
        return Reference(FLOAT_TOYS[name].write(Path(folder)), n_ctx=FLOAT_TOYS[name].n_ctx).logits(prompt())


@pytest.mark.parametrize("name", FLOAT_TOYS)
def test_agrees_with_llama_cpps_logits(name: str, golden: dict[str, np.ndarray]) -> None:
    assert np.abs(right_logits(name)[GOLDEN_ROWS] - golden[f"{name}.logits"]).max() < tolerance(name)


@pytest.mark.parametrize("name", FLOAT_TOYS)
def test_toys_are_lively(name: str) -> None:
    """Neither certain of the next token nor indifferent (ln 384 = 5.95 nats), or they would judge little."""
    log_p = log_softmax(right_logits(name))
    entropy = -(np.exp(log_p) * log_p).sum(axis=1)
    assert 2.0 < entropy.mean() < 5.2


def test_golden_covers_every_toy(golden: dict[str, np.ndarray]) -> None:
    assert set(golden) == {f"{name}.kl" for name in TOYS} | {f"{name}.logits" for name in FLOAT_TOYS}
    assert all(len(golden[f"{name}.kl"]) == LONG_PROMPT for name in TOYS)


def _hparams(**changes: object) -> Callable[[Reference], None]:
    def apply(reference: Reference) -> None:
        reference.hparams = replace(reference.hparams, **changes)

    return apply


def _rope(**changes: object) -> Callable[[Reference], None]:
    def apply(reference: Reference) -> None:
        reference.hparams = replace(reference.hparams, rope=replace(reference.hparams.rope, **changes))

    return apply


def _without(part: str) -> Callable[[Reference], None]:
    def apply(reference: Reference) -> None:
        kept = {name: tensor for name, tensor in reference.tensors.items() if part not in name}
        assert len(kept) < len(reference.tensors)
        reference.tensors = kept

    return apply


def _one_window_rope(reference: Reference) -> None:
    reference.hparams = replace(reference.hparams, rope_swa=reference.hparams.rope)


def _other_context(reference: Reference) -> None:
    reference.n_ctx = 256 if reference.n_ctx > 256 else 512


MISTAKES: dict[str, tuple[str, Callable[[Reference], None]]] = {
    **{f"{arch}: other rope pairs": (arch, _rope(neox=True)) for arch in ("llama", "granite", "smollm3")},
    **{f"{arch}: other rope pairs": (arch, _rope(neox=False)) for arch in ("qwen2", "qwen3", "phi3", "olmo2")},
    "gemma2: other rope pairs": ("gemma2", _rope(neox=False)),
    "rope base ignored": ("llama", _rope(freq_base=10000.0)),
    "linear scaling ignored": ("llama-linear", _rope(freq_scale=1.0)),
    "YaRN as linear scaling": ("llama-yarn", _rope(yarn=False)),
    "YaRN's magnitude ignored": ("llama-yarn", _rope(mscale=1.0)),
    "YaRN with the wrong original context": ("qwen2-yarn", _rope(n_ctx_orig=2048)),
    "Llama 3's factors ignored": ("llama-llama3", _without("rope_freqs")),
    "LongRoPE: short for long": ("phi3-long", _other_context),
    "LongRoPE: long for short": ("phi3-short", _other_context),
    "LongRoPE's magnitude ignored": ("phi3-short", _rope(mscale=1.0)),
    "all dimensions rotated": ("phi3-partial", _rope(n_rot=32)),
    "biases of q ignored": ("qwen2", _without("attn_q.bias")),
    "biases of v ignored": ("qwen2", _without("attn_v.bias")),
    "bias of the output ignored": ("llama-biases", _without("attn_output.bias")),
    "q norm ignored": ("qwen3", _without("attn_q_norm")),
    "k norm ignored": ("qwen3", _without("attn_k_norm")),
    "row norm ignored": ("olmo2", _without("attn_q_norm")),
    "post norm ignored": ("olmo2", _without("post_attention_norm")),
    "feed-forward post norm ignored": ("gemma2", _without("post_ffw_norm")),
    "one expert of two": ("qwen3moe", _hparams(n_expert_used=1)),
    "three experts of two": ("llama-experts", _hparams(n_expert_used=3)),
    "attention cap ignored": ("gemma2", _hparams(attn_softcap=0.0)),
    "final cap ignored": ("gemma2", _hparams(final_softcap=0.0)),
    "embedding scale ignored": ("gemma3", _hparams(embedding_scale=1.0)),
    "GELU as SiLU": ("gemma3", _hparams(gelu=False)),
    "window ignored": ("gemma2", _hparams(n_swa=0)),
    "window one token short": ("gemma2", _hparams(n_swa=23)),
    "windows in the wrong layers": ("gemma2", _hparams(is_swa=(False, True, False, True))),
    "window ignored, Olmo 3": ("olmo3", _hparams(n_swa=0)),
    "YaRN in windows": ("olmo3", _one_window_rope),
    "one rope base for both kinds of layers": ("gemma3", _one_window_rope),
    "linear scaling in no layer": ("gemma3-linear", _rope(freq_scale=1.0)),
    "27B's attention scale, gemma2": ("gemma2-27b", _hparams(attention_scale=32**-0.5)),
    "27B's attention scale, gemma3": ("gemma3-27b", _hparams(attention_scale=32**-0.5)),
    "granite's embedding scale ignored": ("granite", _hparams(embedding_scale=1.0)),
    "granite's residual scale ignored": ("granite", _hparams(residual_scale=1.0)),
    "granite's attention scale ignored": ("granite", _hparams(attention_scale=32**-0.5)),
    "granite's logit scale ignored": ("granite", _hparams(logit_scale=1.0)),
    "granite's rope switch ignored": ("granite-no-rope", _hparams(has_rope=(True,) * 4)),
    "rope in every layer": ("smollm3", _hparams(has_rope=(True,) * 4)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_notices(mistake: str, tmp_path: Path) -> None:
    """Each mistake must move the last rows by far more than llama.cpp and the reference may differ."""
    name, make = MISTAKES[mistake]
    toy = FLOAT_TOYS[name]
    reference = Reference(toy.write(tmp_path), n_ctx=toy.n_ctx)
    make(reference)
    assert np.abs(reference.logits(prompt()) - right_logits(name))[-8:].max() > 5 * tolerance(name)


@pytest.mark.parametrize("name", ["llama", "gemma3", "qwen3moe"])
def test_is_causal(name: str, tmp_path: Path) -> None:
    beginning = Reference(FLOAT_TOYS[name].write(tmp_path)).logits(prompt()[:33])
    # BLAS may sum a smaller product in another order
    assert np.abs(beginning - right_logits(name)[:33]).max() < 1e-10


@pytest.mark.parametrize("name", ["llama", "gemma3", "granite"])
def test_float32_is_nearly_float64(name: str, tmp_path: Path) -> None:
    single = Reference(FLOAT_TOYS[name].write(tmp_path), dtype=np.float32).logits(prompt())
    assert single.dtype == np.float32
    assert np.abs(single - right_logits(name)).max() < 2e-4  # 24 bits through some thirty products


def test_toys_are_the_same_bytes_every_time(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    for name in ("qwen2", "llama-Q4_K_M", "qwen3moe-Q8_0"):
        assert TOYS[name].write(tmp_path).read_bytes() == TOYS[name].write(tmp_path / "again").read_bytes()


@pytest.mark.parametrize("ggml_type", LAYOUTS)
def test_random_blocks_are_centred_and_scaled(ggml_type: GGMLQuantizationType) -> None:
    weights = dequantize(random_blocks("any", (64, 512), 0.1, ggml_type), ggml_type)
    assert weights.shape == (64, 512)
    assert abs(float(weights.std()) - 0.1) < 0.002  # f16 scales
    assert abs(float(weights.mean())) < 0.01
