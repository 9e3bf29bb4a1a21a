"""Frequencies of rotary position embeddings: plain, linear, Llama-3, LongRoPE and YaRN.

Computed in decimal arithmetic, correctly rounded, so that no platform's libm enters (law L3). The table of cosines
and sines is made by a kernel from these and the positions of each step.

Source  Su 2021 (RoPE); Peng 2023 (YaRN), section 3.2; llama.cpp b11434 ggml_rope_yarn_corr_dims and rope_yarn for the
exact bounds of the ramp.
"""

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import numpy as np

_CONTEXT = Context(prec=40)
_TWO_PI = Decimal("6.283185307179586476925286766559005768394")
BETA_FAST, BETA_SLOW = Decimal(32), Decimal(1)


@dataclass(frozen=True)
class Rope:
    """One kind of layer's rotation: pair i turns by position * frequency i; the result is `mscale` times as long."""

    n_rot: int
    freq_base: float
    freq_scale: float = 1.0
    yarn: bool = False
    n_ctx_orig: int = 0
    mscale: float = 1.0


def magnitude(factor: float) -> float:
    """YaRN's length correction for a context stretched by `factor`: 0.1 ln(factor) + 1."""
    return float(Decimal("0.1") * _CONTEXT.ln(Decimal(factor)) + 1) if factor > 1.0 else 1.0


def frequencies(rope: Rope, factors: np.ndarray | None = None) -> np.ndarray:
    """f64[n_rot / 2] radians a position. factors f32[n_rot / 2] divide them (Llama 3's and LongRoPE's tensors)."""
    log_base = _CONTEXT.ln(Decimal(rope.freq_base))
    half = rope.n_rot // 2
    kept = np.array([float(_CONTEXT.exp(log_base * (-2 * i) / rope.n_rot)) for i in range(half)])
    if factors is not None:
        kept = kept / factors.astype(np.float64)
    stretched = kept * rope.freq_scale
    if not rope.yarn:
        return stretched
    low = max(0.0, float(_pair_that_turns(BETA_FAST, rope, log_base).to_integral_value(ROUND_FLOOR)))
    high = min(rope.n_rot - 1.0, float(_pair_that_turns(BETA_SLOW, rope, log_base).to_integral_value(ROUND_CEILING)))
    share = 1.0 - np.clip((np.arange(half) - low) / max(0.001, high - low), 0.0, 1.0)
    return stretched * (1.0 - share) + kept * share


def _pair_that_turns(n_turns: Decimal, rope: Rope, log_base: Decimal) -> Decimal:
    """The fractional pair that makes n_turns within the original context."""
    return rope.n_rot * _CONTEXT.ln(Decimal(rope.n_ctx_orig) / (n_turns * _TWO_PI)) / (2 * log_base)
