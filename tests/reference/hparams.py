"""The numbers in a GGUF's metadata that change a forward pass, architecture by architecture.

Source: llama.cpp b11434, src/llama-model.cpp (load_hparams, llama_model_rope_type), src/models/*.cpp
(load_arch_hparams), src/llama-context.cpp (YaRN's attention factor).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

ARCHITECTURES = ("gemma2", "gemma3", "granite", "llama", "olmo2", "phi3", "qwen2", "qwen3", "qwen3moe", "smollm3")

# rotated pairs: neighbours (2i, 2i + 1), or halves (i, i + n_rot / 2) for all others
NORM_ROPE = {"granite", "llama", "smollm3"}

# layers in a period of which the last one sees everything and the others a window
SWA_PERIOD = {"gemma2": 2, "gemma3": 6, "olmo2": 4}


@dataclass(frozen=True)
class Rope:
    """One layer kind's rotation: angle of pair i at position p is p * frequency(i); see rope.py."""

    n_rot: int
    neox: bool
    freq_base: float
    freq_scale: float
    yarn: bool
    n_ctx_orig: int
    mscale: float  # length of the rotated vector relative to the unrotated one


@dataclass(frozen=True)
class Hparams:
    architecture: str
    n_layer: int
    n_embd: int
    n_head: int
    n_head_kv: int
    n_embd_head: int
    n_expert_used: int
    eps: float
    gelu: bool
    rope: Rope
    rope_swa: Rope
    has_rope: tuple[bool, ...]  # by layer
    is_swa: tuple[bool, ...]  # by layer
    n_swa: int
    attention_scale: float
    attn_softcap: float  # 0: none
    final_softcap: float  # 0: none
    embedding_scale: float
    residual_scale: float
    logit_scale: float  # logits are divided by it


def read_hparams(metadata: Mapping[str, Any]) -> Hparams:
    arch = metadata["general.architecture"]
    assert arch in ARCHITECTURES, arch

    def get(key: str, default: Any = None) -> Any:
        value = metadata.get(f"{arch}.{key}", default)
        assert value is not None, f"{arch}.{key} is missing"
        return value

    n_layer, n_embd, n_head = get("block_count"), get("embedding_length"), get("attention.head_count")
    n_embd_head = get("attention.key_length", n_embd // n_head)
    is_swa, n_swa = _windows(arch, n_layer, get)
    rope = _rope(arch, n_embd_head, get)
    scale = get("attention.scale", 0.0) if arch == "granite" else 0.0
    if (arch, n_layer) in {("gemma2", 46), ("gemma3", 62)}:  # the 27B models, which their authors scale differently
        scale = (n_embd // n_head) ** -0.5
    return Hparams(
        architecture=arch,
        n_layer=n_layer,
        n_embd=n_embd,
        n_head=n_head,
        n_head_kv=get("attention.head_count_kv", n_head),
        n_embd_head=n_embd_head,
        n_expert_used=get("expert_used_count", 0),
        eps=get("attention.layer_norm_rms_epsilon"),
        gelu=arch in {"gemma2", "gemma3"},
        rope=rope,
        rope_swa=_rope_swa(arch, rope, get),
        has_rope=tuple(_has_rope(arch, il, get) for il in range(n_layer)),
        is_swa=is_swa,
        n_swa=n_swa,
        attention_scale=scale or n_embd_head**-0.5,
        attn_softcap=get("attn_logit_softcapping", 50.0) if arch == "gemma2" else 0.0,
        final_softcap=get("final_logit_softcapping", {"gemma2": 30.0}.get(arch, 0.0)) if "gemma" in arch else 0.0,
        embedding_scale=_embedding_scale(arch, n_embd, get),
        residual_scale=(get("residual_scale", 0.0) or 1.0) if arch == "granite" else 1.0,
        logit_scale=get("logit_scale") if arch == "granite" else 1.0,
    )


def _embedding_scale(arch: str, n_embd: int, get: Any) -> float:
    if arch in {"gemma2", "gemma3"}:
        return math.sqrt(n_embd)
    return (get("embedding_scale", 0.0) or 1.0) if arch == "granite" else 1.0


def _has_rope(arch: str, il: int, get: Any) -> bool:
    if arch == "granite":  # llama.cpp reads this key as the switch of rope for the granite family
        return bool(get("rope.scaling.finetuned", True))
    return arch != "smollm3" or (il + 1) % 4 != 0


def _windows(arch: str, n_layer: int, get: Any) -> tuple[tuple[bool, ...], int]:
    """Which layers see a window, and of how many tokens (the query's own included).

    phi3 files carry a window too, but llama.cpp ignores it (its files' patterns are not to be trusted), and so do we.
    """
    n_swa = get("attention.sliding_window", 4096 if arch == "gemma2" else 0)
    if arch not in SWA_PERIOD or n_swa == 0:
        return (False,) * n_layer, 0
    pattern = get("attention.sliding_window_pattern", SWA_PERIOD[arch])
    if not isinstance(pattern, int):
        return tuple(bool(x) for x in pattern), n_swa
    return tuple(pattern == 0 or il % pattern < pattern - 1 for il in range(n_layer)), n_swa


def _rope(arch: str, n_embd_head: int, get: Any) -> Rope:
    kind = get("rope.scaling.type", "linear")
    factor = get("rope.scaling.factor", 0.0) or get("rope.scale_linear", 0.0) or 1.0
    freq_scale = 1.0 if kind == "none" else 1.0 / factor
    # YaRN's magnitude is 0.1 ln(s) + 1 for s > 1; longrope files carry theirs in attn_factor
    magnitude = 0.1 * math.log(1.0 / freq_scale) + 1.0 if kind == "yarn" and freq_scale < 1.0 else 1.0
    return Rope(
        n_rot=get("rope.dimension_count", n_embd_head),
        neox=arch not in NORM_ROPE,
        freq_base=get("rope.freq_base", 10000.0),
        freq_scale=freq_scale,
        yarn=kind == "yarn",
        n_ctx_orig=get("rope.scaling.original_context_length", 0) or get("context_length"),
        mscale=magnitude * get("rope.scaling.attn_factor", 1.0),
    )


def _rope_swa(arch: str, rope: Rope, get: Any) -> Rope:
    """The rotation in window layers: gemma3 has an own base and no scaling, Olmo 3 the same base and no YaRN."""
    if arch == "gemma3":
        assert not rope.yarn, "no gemma3 file combines YaRN with windows"
        return replace(rope, freq_base=get("rope.freq_base_swa", 10000.0), freq_scale=1.0)
    if arch == "gemma2":
        return replace(rope, freq_base=get("rope.freq_base_swa", rope.freq_base))
    return replace(rope, freq_scale=1.0, yarn=False, mscale=1.0)
