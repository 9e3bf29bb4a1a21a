"""The toys: every architecture, every option that changes the maths, every weight type, by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gguf import GGMLQuantizationType as Type

from reference.blocks import random_bits
from reference.toy_file import Shape, Toy
from reference.vocabulary import N_VOCAB

PROMPT_LENGTH = 80  # longer than every toy's window; two and a half pages of 32 tokens
LONG_PROMPT = 240  # for averages: those of two equally good runtimes then differ by less than a fifth
GOLDEN = Path(__file__).parents[1] / "data" / "toys_llamacpp.npz"  # see tests/peers/write_toy_golden.py
GOLDEN_ROWS = [PROMPT_LENGTH // 2, PROMPT_LENGTH - 1]


def prompt(n: int = PROMPT_LENGTH, seed: int = 1) -> list[int]:
    """n random token ids, beginning with none in particular."""
    return [int(x) for x in random_bits(f"prompt {seed}", n) % N_VOCAB]


SHAPE = Shape()
# every row a multiple of 256 weights, so that k-quants fit
WIDE = Shape(n_embd=256, n_head=4, n_embd_head=64, n_ff=512)
SIX_LAYERS = Shape(n_layer=6, n_head=2, n_head_kv=1, n_embd_head=64)  # gemma3's windows have a period of six
EXPERTS = Shape(n_ff=96, n_expert=8)
WIDE_EXPERTS = Shape(n_embd=256, n_head=4, n_embd_head=64, n_ff=256, n_expert=8)
FREE_HEAD = Shape(n_embd=96, n_embd_head=64)  # heads wider than n_embd / n_head, as in Mistral Nemo and Qwen3

YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 512}
LINEAR = {"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
LONGROPE = {
    "rope.scaling.type": "longrope",
    "rope.scaling.attn_factor": 1.19,
    "rope.scaling.original_context_length": 256,
}
LONGROPE_FACTORS = ("rope_factors_long.weight", "rope_factors_short.weight")

# Hparams that a real file of the architecture always has; scales and caps tighter than real ones, so that they bite
GEMMA2 = {"attention.sliding_window": 24, "attn_logit_softcapping": 3.0, "final_logit_softcapping": 6.0}
GEMMA3 = {"attention.sliding_window": 24, "rope.freq_base": 1e6}
GRANITE = {"embedding_scale": 1.5, "residual_scale": 0.4, "attention.scale": 0.1, "logit_scale": 1.3}
QWEN3 = {"rope.freq_base": 1e6}
QWEN3MOE = {"rope.freq_base": 1e6, "expert_feed_forward_length": 96}
OLMO3 = {"attention.sliding_window": 24, "rope.freq_base": 5e5, **YARN}

QKV_BIASES = ("attn_q", "attn_k", "attn_v")

_FLOAT: list[Toy] = [
    Toy("llama", "llama", SHAPE, {"rope.freq_base": 1e5}),
    Toy("llama-tied", "llama", SHAPE, {}, tied=True),
    Toy("llama-free-head", "llama", FREE_HEAD, {}),
    Toy("llama-biases", "llama", SHAPE, {}, biases=(*QKV_BIASES, "attn_output")),
    Toy("llama-llama3", "llama", SHAPE, {"rope.freq_base": 5e5}, factors=("rope_freqs.weight",)),
    Toy("llama-linear", "llama", SHAPE, LINEAR),
    Toy("llama-yarn", "llama", SHAPE, YARN),
    Toy("llama-experts", "llama", EXPERTS, {}),
    Toy("qwen2", "qwen2", SHAPE, {}, biases=QKV_BIASES),
    Toy("qwen2-yarn", "qwen2", SHAPE, YARN, biases=QKV_BIASES, tied=True),
    Toy("qwen3", "qwen3", FREE_HEAD, QWEN3, tied=True),
    Toy("qwen3moe", "qwen3moe", EXPERTS, QWEN3MOE),
    Toy("gemma2", "gemma2", FREE_HEAD, GEMMA2, tied=True),
    Toy("gemma2-27b", "gemma2", Shape(46, 64, 4, 2, 32, 64), GEMMA2, tied=True),
    Toy("gemma3", "gemma3", SIX_LAYERS, GEMMA3, tied=True),
    Toy("gemma3-linear", "gemma3", SIX_LAYERS, {**GEMMA3, **LINEAR}, tied=True),
    Toy("gemma3-no-window", "gemma3", SIX_LAYERS, {"rope.freq_base": 1e6}),
    Toy("gemma3-27b", "gemma3", Shape(62, 64, 4, 2, 32, 64), GEMMA3, tied=True),
    Toy("phi3", "phi3", SHAPE, {"attention.sliding_window": 24}),
    Toy("phi3-partial", "phi3", SHAPE, {"rope.dimension_count": 24}, tied=True),
    Toy("phi3-short", "phi3", SHAPE, LONGROPE, factors=LONGROPE_FACTORS, n_ctx=256),
    Toy("phi3-long", "phi3", SHAPE, LONGROPE, factors=LONGROPE_FACTORS, n_ctx=512),
    Toy("olmo2", "olmo2", SHAPE, {"rope.freq_base": 5e5}),
    Toy("olmo3", "olmo2", SHAPE, OLMO3),
    Toy("granite", "granite", SHAPE, GRANITE, tied=True),
    Toy("granite-no-rope", "granite", SHAPE, {**GRANITE, "rope.scaling.finetuned": False}),
    Toy("smollm3", "smollm3", SHAPE, {"rope.freq_base": 5e6}, tied=True),
]

# weight types, all on one architecture, then two on every architecture
LEGACY = (Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.IQ4_NL)
SUPER = (Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.IQ4_XS)
Q4_K_M = {"attn_v": Type.Q6_K, "ffn_down": Type.Q6_K, "token_embd": Type.Q6_K, "output.": Type.Q6_K}
MIXED_EXPERTS = {"ffn_up_exps": Type.Q8_0, "ffn_down_exps": Type.Q6_K}  # their input is wanted in two forms
NARROW_MIX = {"attn_v": Type.Q8_0, "ffn_down": Type.Q4_1, "token_embd": Type.Q8_0, "attn_output": Type.Q5_1}

_VARIANTS: dict[str, dict[str, Any]] = {
    "qwen2": {"metadata": {}, "biases": QKV_BIASES},
    "qwen3": {"metadata": QWEN3},
    "qwen3moe": {"metadata": {**QWEN3MOE, "expert_feed_forward_length": 256}, "shape": WIDE_EXPERTS},
    "gemma2": {"metadata": GEMMA2, "tied": True},
    "gemma3": {"metadata": GEMMA3, "tied": True, "shape": Shape(6, 256, 4, 1, 64, 512)},
    "phi3": {"metadata": {}},
    "olmo2": {"metadata": {}},
    "granite": {"metadata": GRANITE, "tied": True},
    "smollm3": {"metadata": {}, "tied": True},
}

_QUANTISED: list[Toy] = [
    *(Toy(f"llama-{t.name}", "llama", SHAPE, {}, ggml_type=t) for t in LEGACY),
    *(Toy(f"llama-{t.name}", "llama", WIDE, {}, ggml_type=t) for t in SUPER),
    Toy("llama-Q4_K_M", "llama", WIDE, {}, ggml_type=Type.Q4_K, mixed=Q4_K_M, tied=True),
    Toy("llama-narrow-mix", "llama", SHAPE, {}, ggml_type=Type.Q5_0, mixed=NARROW_MIX, tied=True),
    Toy("llama-mixed-experts", "llama", WIDE_EXPERTS, {}, ggml_type=Type.Q4_K, mixed=MIXED_EXPERTS),
    *(
        Toy(f"{arch}-{t.name}", arch, ggml_type=t, **{"shape": WIDE, **options})
        for arch, options in _VARIANTS.items()
        for t in (Type.Q8_0, Type.Q4_K)
    ),
]

FLOAT_TOYS = {toy.name: toy for toy in _FLOAT}
QUANTISED_TOYS = {toy.name: toy for toy in _QUANTISED}
TOYS = {**FLOAT_TOYS, **QUANTISED_TOYS}


def tolerance(name: str) -> float:
    """How far llama.cpp's exact logits (standard deviation 2 to 3) may be from the float64 reference's.

    f32 sums measure 1e-4 at most; experts, chosen by numbers that carry that error, twice as much. The gemma family's
    GELU comes from a table of halves: 2^-11 of every feed-forward input, amplified by 62 layers in the worst case.
    """
    if "27b" in name:
        return 0.1
    return 0.02 if FLOAT_TOYS[name].architecture.startswith("gemma") else 5e-4
