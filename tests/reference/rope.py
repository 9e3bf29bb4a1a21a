"""Rotary position embedding with linear, Llama-3, LongRoPE and YaRN frequencies, in float64.

Source: Su et al. 2021 (RoPE), Peng et al. 2023 (YaRN, section 3.2 for the ramp); llama.cpp b11434 ggml/src/ggml.c
(ggml_rope_yarn_corr_dims) and ggml/src/ggml-cpu/ops.cpp (rope_yarn) for the exact bounds of the ramp.
"""

from __future__ import annotations

import math

import numpy as np

from reference.hparams import Rope

# YaRN: pairs that turn more than BETA_FAST times within the original context keep their frequency, those that turn
# less than BETA_SLOW times are interpolated
BETA_FAST, BETA_SLOW = 32.0, 1.0


def frequencies(rope: Rope, factors: np.ndarray | None) -> np.ndarray:
    """f64[n_rot / 2]: radians a position of every pair; `factors` divide them (Llama 3, LongRoPE)."""
    i = np.arange(rope.n_rot // 2, dtype=np.float64)
    kept = rope.freq_base ** (-2.0 * i / rope.n_rot)
    if factors is not None:
        kept = kept / factors.astype(np.float64)
    interpolated = kept * rope.freq_scale
    if not rope.yarn:
        return interpolated
    low = max(0.0, math.floor(_pair_that_turns(BETA_FAST, rope)))
    high = min(rope.n_rot - 1.0, math.ceil(_pair_that_turns(BETA_SLOW, rope)))
    share = 1.0 - np.clip((i - low) / max(0.001, high - low), 0.0, 1.0)
    return interpolated * (1.0 - share) + kept * share


def _pair_that_turns(n_turns: float, rope: Rope) -> float:
    """The (fractional) pair that makes n_turns within the original context."""
    return rope.n_rot * math.log(rope.n_ctx_orig / (n_turns * 2.0 * math.pi)) / (2.0 * math.log(rope.freq_base))


def rotate(x: np.ndarray, rope: Rope, factors: np.ndarray | None) -> np.ndarray:
    """x [n_tokens, n_head, n_embd_head] at positions 0, 1, 2, …; dimensions from n_rot on pass unrotated."""
    angles = np.arange(len(x), dtype=np.float64)[:, None, None] * frequencies(rope, factors)  # [n_tokens, 1, n_rot / 2]
    cos, sin = np.cos(angles) * rope.mscale, np.sin(angles) * rope.mscale
    half = rope.n_rot // 2
    first, second = (
        (slice(0, half), slice(half, rope.n_rot)) if rope.neox else (slice(0, rope.n_rot, 2), slice(1, rope.n_rot, 2))
    )
    out = x.copy()
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out
