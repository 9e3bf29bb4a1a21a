"""Real models: how far we and llama.cpp are from the truth, over 2,016 positions of English, Chinese and code.

`pytest -s tests/peers/test_quality.py` prints the figures.
"""

from pathlib import Path

import numpy as np
import pytest
from reference.compare import Comparison, compare_each, join
from reference.model import Reference

pytest.importorskip("xllamacpp")

from oracle import LlamaCpp

from chenxing import LLM

pytestmark = [pytest.mark.peer, pytest.mark.model, pytest.mark.slow]

TEXT = Path(__file__).parents[1] / "data" / "quality.txt"
# longer than Gemma's window of 512 and than one segment of 512 keys
N_CHUNKS, CHUNK, N_CTX = 3, 672, 768


# one test a model, not one a figure: a parallel run that spread them would repeat minutes of work for each
@pytest.mark.parametrize("model", ["smollm2_path", "gemma3_path"])
def test_as_good_as_llama_cpp(model: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(model)
    ours, theirs = measure(path)
    print(f"\n{path.name}, {len(ours.kl)} positions")
    print(describe("ours", ours))
    print(describe("llama.cpp", theirs))
    assert len(ours.kl) >= 2000
    assert ours.kl.mean() <= 1.1 * theirs.kl.mean()
    assert abs(ours.perplexity / theirs.perplexity - 1.0) < 0.005
    # Other top tokens only at near ties: the reference prefers its own by less than a nat, and over all of them by no
    # more than llama.cpp's. A quarter of slack: some hundred accidents of rounding sum to that within two deviations.
    assert ours.gaps.max(initial=0.0) < 1.0
    assert ours.gaps.sum() <= 1.25 * theirs.gaps.sum()


def measure(path: Path) -> tuple[Comparison, Comparison]:
    """Ours and llama.cpp's, as its users run it, against the float32 reference on the same tokens."""
    reference = Reference(path, dtype=np.float32, n_ctx=N_CTX)
    ours: list[Comparison] = []
    theirs: list[Comparison] = []
    with LLM.load(path, n_ctx=N_CTX, disk_cache=False) as llm, LlamaCpp(path, n_ctx=N_CTX) as oracle:
        for ids in chunks(oracle):
            found = compare_each(reference.logits(ids), [llm.logits(ids), oracle.logits(ids)], ids)
            for comparisons, comparison in zip((ours, theirs), found, strict=True):
                comparisons.append(comparison)
    return join(ours), join(theirs)


def chunks(oracle: LlamaCpp) -> list[list[int]]:
    """N_CHUNKS pieces of CHUNK tokens, spread over the whole text, each led by BOS where the model wants one."""
    special, ids = oracle.tokenize("", add_special=True), oracle.tokenize(TEXT.read_text("utf-8"), add_special=False)
    n = CHUNK - len(special)
    assert len(ids) > N_CHUNKS * n, f"{len(ids)} tokens of text would make the pieces overlap"
    starts = [i * (len(ids) - n) // (N_CHUNKS - 1) for i in range(N_CHUNKS)]
    return [special + ids[start : start + n] for start in starts]


def describe(name: str, c: Comparison) -> str:
    return (
        f"  {name:10} KL mean {c.kl.mean():.3e} median {np.median(c.kl):.3e} max {c.kl.max():.3e}"
        f"  log-prob error mean {c.log_prob_error.mean():.3f} max {c.log_prob_error.max():.3f}"
        f"  perplexity {c.perplexity:.4f} (reference {c.reference_perplexity:.4f})"
        f"  top-1 {c.top1_agreement:.4f}, gaps up to {c.gaps.max(initial=0.0):.3f} nats, {c.gaps.sum():.2f} together"
    )
