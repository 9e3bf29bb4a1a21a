"""The reference and the toys against llama.cpp itself: every toy with float weights, every position."""

from pathlib import Path

import numpy as np
import pytest
from reference.model import Reference
from reference.toys import FLOAT_TOYS, GOLDEN, GOLDEN_ROWS, QUANTISED_TOYS, prompt, tolerance

pytest.importorskip("xllamacpp")

from write_toy_golden import divergence, exact_logits

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDEN) as file:
        return dict(file)


@pytest.mark.parametrize("name", FLOAT_TOYS)
def test_reference_agrees_at_every_position(name: str, tmp_path: Path, golden: dict[str, np.ndarray]) -> None:
    toy = FLOAT_TOYS[name]
    path = toy.write(tmp_path)
    theirs = exact_logits(path, toy.n_ctx)
    assert np.abs(Reference(path, n_ctx=toy.n_ctx).logits(prompt()) - theirs).max() < tolerance(name)
    # the committed rows are this llama.cpp's, or its successor computes the same within rounding
    assert np.abs(golden[f"{name}.logits"] - theirs[GOLDEN_ROWS]).max() < tolerance(name)


@pytest.mark.parametrize("name", QUANTISED_TOYS)
def test_committed_divergences_are_llama_cpps(name: str, tmp_path: Path, golden: dict[str, np.ndarray]) -> None:
    toy = QUANTISED_TOYS[name]
    now, then = divergence(toy.write(tmp_path), toy.n_ctx), golden[f"{name}.kl"]
    # other instruction sets round activations otherwise; medians, because one flipped expert moves a mean
    assert 0.6 < np.median(now) / np.median(then) < 1.6
