"""Rows of logits and settings that the tests of this folder share."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from chenxing.sampling.candidates import Candidates, all_tokens

EVERY_TIME = settings(derandomize=True, deadline=None, max_examples=80)


def row(*logits: float) -> np.ndarray:
    return np.array(logits, dtype=np.float32)


def normal_row(n_vocab: int, seed: int, spread: float = 3.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, spread, n_vocab).astype(np.float32)


def candidates_of(probabilities: list[float]) -> Candidates:
    with np.errstate(divide="ignore"):
        return all_tokens(np.log(np.array(probabilities, dtype=np.float32)))


_LOGITS = st.one_of(
    st.floats(-30, 30, width=32),
    st.integers(-3, 3).map(float),  # many ties
    st.just(-np.inf),  # banned
)

# f32[n], at least one of them finite
ROWS = (
    st.lists(_LOGITS, min_size=1, max_size=30)
    .map(lambda values: row(*values))
    .filter(lambda x: bool(np.isfinite(x).any()))
)
