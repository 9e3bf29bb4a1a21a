"""Writes tests/data/toys_llamacpp.npz: what llama.cpp says about every toy, for runs without the `peer` extra.

    PYTHONPATH=tests:tests/peers python tests/peers/write_toy_golden.py

NAME.logits  f32[len(GOLDEN_ROWS), N_VOCAB]  float toys: rows GOLDEN_ROWS after prompt(), KV in f32, no flash attention
NAME.kl      f64[len(ids)]                   KL(reference || llama.cpp) after prompt(LONG_PROMPT), llama.cpp's defaults
"""

import tempfile
from pathlib import Path

import numpy as np
from oracle import LlamaCpp
from reference.compare import compare
from reference.model import Reference
from reference.toys import FLOAT_TOYS, GOLDEN, GOLDEN_ROWS, LONG_PROMPT, TOYS, prompt


def exact_logits(path: Path, n_ctx: int) -> np.ndarray:
    """f32[PROMPT_LENGTH, N_VOCAB] of llama.cpp with the two roundings that can be switched off switched off."""
    with LlamaCpp(path, n_ctx=n_ctx, kv_type="f32", flash_attn="off", n_threads=1) as model:
        return model.logits(prompt())


def divergence(path: Path, n_ctx: int) -> np.ndarray:
    """f64[LONG_PROMPT]: KL(reference || llama.cpp as its users run it) at every position."""
    ids = prompt(LONG_PROMPT)
    with LlamaCpp(path, n_ctx=n_ctx, n_threads=1) as model:
        return compare(Reference(path, n_ctx=n_ctx).logits(ids), model.logits(ids), ids).kl


def main() -> None:
    golden = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, toy in TOYS.items():
            path = toy.write(Path(folder))
            golden[f"{name}.kl"] = divergence(path, toy.n_ctx)
            if name in FLOAT_TOYS:
                golden[f"{name}.logits"] = exact_logits(path, toy.n_ctx)[GOLDEN_ROWS]
    np.savez_compressed(GOLDEN, **golden)


if __name__ == "__main__":
    main()
