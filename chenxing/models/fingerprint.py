"""What the bits of keys and values depend on: runs share pages if their fingerprints are equal, and only then.

Threads, batches, chunks and instruction sets are not part of it: they change no bit (laws L1, L2, L3). Nor are the
file's name, place and age, its tokenizer and its template: pages are found by token ids.
"""

from dataclasses import asdict
from typing import Any

from chenxing.gguf import GGUF
from chenxing.kernels.layout import PAGE
from chenxing.models.model import Model

NUMERICS = 1
"""Raised with every change after which any weight type or architecture gives other bits of keys or values, or keeps
them at another place of a page: kernels, quantisation of activations, frequencies, forward passes. What was stored
under the number before is not found any more and ages out. tests/models/test_fingerprint.py has the pages' digests
that belong to this number."""


def kv_fingerprint(gguf: GGUF, model: Model, kv_type: str) -> dict[str, Any]:
    """JSON values. "name" is for people: it is no part of the identity."""
    return {
        "name": gguf.path.name,
        "architecture": gguf.architecture,
        "weights": model.weights.identity,
        "hparams": asdict(model.hp),
        "kv_type": kv_type,
        "page": PAGE,
        "numerics": NUMERICS,
    }
