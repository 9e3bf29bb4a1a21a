"""Hyperparameters from a GGUF's metadata: the keys that architectures share, and the refusal of those that none reads.

Source  llama.cpp b11434 src/llama-model.cpp load_hparams, src/llama-context.cpp for YaRN's length
"""

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from chenxing.errors import ModelFileError, UnsupportedModelError
from chenxing.gguf import GGUF
from chenxing.models.rope import Rope, magnitude
from chenxing.models.spec import HParams

# Keys that change the maths, with the values that leave it as it is. An architecture names those that it understands;
# any other value of the rest is an error, since running without it would give wrong answers.
NEUTRAL: dict[str, tuple[float, ...]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0,),
    "attention.max_alibi_bias": (0,),
    "attention.output_scale": (0, 1),
    "attention.scale": (0,),
    "attention.sliding_window": (0,),
    "attention.temperature_scale": (0,),
    "attn_logit_softcapping": (0,),
    "embedding_scale": (0, 1),
    "expert_count": (0,),
    "expert_gating_func": (0, 1),  # none said, softmax
    "expert_group_count": (0, 1),
    "expert_shared_count": (0,),
    "expert_shared_feed_forward_length": (0,),
    "expert_weights_norm": (True,),
    "expert_weights_scale": (0, 1),
    "final_logit_softcapping": (0,),
    "interleave_moe_layer_step": (0, 1),
    "leading_dense_block_count": (0,),
    "logit_scale": (0, 1),
    "nextn_predict_layers": (0,),
    "residual_scale": (0, 1),
    "rope.scaling.alpha": (0,),
    "rope.scaling.yarn_beta_fast": (32,),
    "rope.scaling.yarn_beta_slow": (1,),
    "rope.scaling.yarn_ext_factor": (1,),
    "router_logit_softcapping": (0,),
    "swiglu_clamp_exp": (0,),
    "swiglu_clamp_shexp": (0,),
    "use_parallel_residual": (False,),
}


# The least that a number may be, where less has no meaning; a float is finite in any case.
LEAST: dict[str, float] = {
    "attention.layer_norm_rms_epsilon": 0.0,
    "attn_logit_softcapping": 0.0,
    "context_length": 1,
    "final_logit_softcapping": 0.0,
    "rope.freq_base": 2.0,
    "rope.freq_base_swa": 2.0,
    "rope.scale_linear": 0.0,
    "rope.scaling.attn_factor": 0.0,
    "rope.scaling.factor": 0.0,
    "rope.scaling.original_context_length": 0,
}


def check_numbers(model: GGUF) -> None:
    """Numbers that no model can mean, and more layers than tensors, before anything is counted or computed by them.

    Raises ModelFileError.
    """
    arch = model.architecture
    n_layer, n_tensors = model.require(f"{arch}.block_count", int), len(model.tensors)
    if n_tensors and not 1 <= n_layer <= n_tensors:
        raise ModelFileError(model.path, f"{arch}.block_count", f"1 to {n_tensors} layers", str(n_layer))
    for key, value in model.metadata.items():
        if not key.startswith(f"{arch}.") or isinstance(value, bool) or not isinstance(value, int | float):
            continue
        least = LEAST.get(key.removeprefix(f"{arch}."), -math.inf)
        if not math.isfinite(value) or value < least:
            expected = "a finite number" + (f" of at least {least:g}" if least > -math.inf else "")
            raise ModelFileError(model.path, key, expected, str(value))


def read_hparams(model: GGUF, understood: Collection[str] = (), **extra: Any) -> HParams:
    """The keys that all decoder architectures share.

    understood   keys of NEUTRAL that the architecture reads itself
    Raises ModelFileError for missing or contradicting keys, UnsupportedModelError for keys that change the maths.
    """
    arch = model.architecture

    def count(key: str, default: int | None = None) -> int:
        value = model.metadata.get(f"{arch}.{key}")
        if isinstance(value, np.ndarray):  # one value a layer
            values = set(value.tolist())
            if len(values) != 1:
                raise UnsupportedModelError(f"{model.path}: {arch}.{key} differs from layer to layer: {sorted(values)}")
            return int(values.pop())
        found = model.get(f"{arch}.{key}", int) if default is None else model.get(f"{arch}.{key}", int, default)
        return model.require(f"{arch}.{key}", int) if found is None else found

    n_embd, n_head = count("embedding_length"), count("attention.head_count")
    if n_head < 1 or n_embd < 1:
        raise ModelFileError(model.path, f"{arch}.attention.head_count", "at least 1", str(n_head))
    head_dim = count("attention.key_length", n_embd // n_head)
    n_head_kv = count("attention.head_count_kv", n_head)
    if n_head_kv < 1 or n_head % n_head_kv:
        raise ModelFileError(
            model.path, f"{arch}.attention.head_count_kv", f"a divisor of {n_head} heads", str(n_head_kv)
        )
    if count("attention.value_length", head_dim) != head_dim:
        raise UnsupportedModelError(f"{model.path}: keys and values of different lengths are not supported")
    if n_embd % 32:
        raise UnsupportedModelError(f"{model.path}: {arch}.embedding_length {n_embd} is no multiple of 32")
    rope = read_rope(model, head_dim)
    same = {"attention.key_length_swa": head_dim, "attention.value_length_swa": head_dim}
    same["rope.dimension_count_swa"] = rope.n_rot
    _refuse(model, {**NEUTRAL, **{key: (n,) for key, n in same.items()}}, understood)
    table = model.tensors.get("token_embd.weight")
    if table is None:
        raise ModelFileError(
            model.path, "tensor token_embd.weight", "a token table", "none", "The file holds a vocabulary only"
        )
    return HParams(
        n_layer=count("block_count"),
        n_embd=n_embd,
        n_head=n_head,
        n_head_kv=n_head_kv,
        head_dim=head_dim,
        n_ff=count("feed_forward_length", 0),
        n_vocab=table.shape[0],
        n_ctx_train=count("context_length"),
        norm_eps=model.require(f"{arch}.attention.layer_norm_rms_epsilon", float),
        rope=rope,
        extra=extra,
    )


def _refuse(model: GGUF, neutral: dict[str, tuple[float, ...]], understood: Collection[str]) -> None:
    for key in sorted(neutral.keys() - set(understood)):
        value = model.metadata.get(f"{model.architecture}.{key}")
        values = [] if value is None else value.tolist() if isinstance(value, np.ndarray) else [value]
        if any(v not in neutral[key] for v in values):
            raise UnsupportedModelError(
                f"{model.path}: {model.architecture}.{key} is {value}: not supported for this architecture, and "
                "running without it would give wrong answers"
            )


def read_windows(model: GGUF, *, n_swa: int = 0, period: int) -> dict[str, Any]:
    """n_swa, how many keys a window layer sees, and is_swa, which layers those are, as in llama.cpp.

    n_swa    the window where the file says none; 0: no windows
    period   every so many layers one sees everything, the last of them; 0: none does. The file's pattern comes first:
             a period, or a flag a layer
    """
    arch = model.architecture
    n_layer = model.require(f"{arch}.block_count", int)
    n_swa = model.get(f"{arch}.attention.sliding_window", int, n_swa)
    key = f"{arch}.attention.sliding_window_pattern"
    pattern = model.metadata.get(key)
    if n_swa == 0:
        flags = [False] * n_layer
    elif isinstance(pattern, np.ndarray):
        flags = [bool(flag) for flag in pattern.tolist()]
    else:
        period = model.get(key, int, period)
        flags = [period == 0 or i % period < period - 1 for i in range(n_layer)]
    if len(flags) != n_layer:
        raise ModelFileError(model.path, key, f"a flag for each of {n_layer} layers", f"{len(flags)}")
    return {"n_swa": n_swa, "is_swa": tuple(flags)}


def read_experts(model: GGUF) -> dict[str, int]:
    """n_expert and n_expert_used; both 0 in a dense model."""
    arch = model.architecture
    n_expert, used = model.get(f"{arch}.expert_count", int, 0), f"{arch}.expert_used_count"
    n_expert_used = model.require(used, int) if n_expert else 0
    if n_expert and not 0 < n_expert_used <= n_expert:
        raise ModelFileError(model.path, used, f"1 to {n_expert} experts", str(n_expert_used))
    return {"n_expert": n_expert, "n_expert_used": n_expert_used}


def read_rope(model: GGUF, head_dim: int) -> Rope:
    """The rotation that the file's rope.* keys describe."""
    arch = model.architecture
    kind = model.get(f"{arch}.rope.scaling.type", str, "linear")
    if kind not in ("none", "linear", "yarn", "longrope"):
        raise UnsupportedModelError(
            f"{model.path}: {arch}.rope.scaling.type is {kind!r}; known are none, linear, yarn, longrope"
        )
    factor = model.get(f"{arch}.rope.scaling.factor", float, 0.0) or model.get(f"{arch}.rope.scale_linear", float, 0.0)
    if not factor or kind == "none":
        factor = 1.0
    n_rot = model.get(f"{arch}.rope.dimension_count", int, head_dim)
    if not 0 < n_rot <= head_dim or n_rot % 2:
        raise ModelFileError(model.path, f"{arch}.rope.dimension_count", f"an even number up to {head_dim}", str(n_rot))
    n_ctx = model.require(f"{arch}.context_length", int)
    mscale = model.get(f"{arch}.rope.scaling.attn_factor", float, 1.0)
    return Rope(
        n_rot=n_rot,
        freq_base=model.get(f"{arch}.rope.freq_base", float, 10000.0),
        freq_scale=1.0 / factor,
        yarn=kind == "yarn",
        n_ctx_orig=model.get(f"{arch}.rope.scaling.original_context_length", int, 0) or n_ctx,
        mscale=mscale * _yarn_length(model, factor) if kind == "yarn" else mscale,
    )


def _yarn_length(model: GGUF, factor: float) -> float:
    """How much longer YaRN makes rotated vectors: the file's own number, or 0.1 ln(factor) + 1, or that by halves:
    divided by itself with the logarithm multiplied."""
    key = f"{model.architecture}.rope.scaling.yarn_"
    own, multiplier = model.get(key + "attn_factor", float, 0.0), model.get(key + "log_multiplier", float, 0.0)
    return own or magnitude(factor) / (1.0 + multiplier * (magnitude(factor) - 1.0))
