"""Logits after a restored prefix are, bit by bit, those of a cold run, for real models; and so is what follows."""

from pathlib import Path

import numpy as np
import pytest

from chenxing.gguf import open_gguf
from chenxing.kernels.library import KernelLibrary
from chenxing.kvcache import KVCache, Sequence
from chenxing.models import Run
from chenxing.models.model import N_BATCH, Model, load_model, page_bytes, read_model

pytestmark = pytest.mark.model
N_CTX = 1024
N_GREEDY = 8


def advance(model: Model, sequence: Sequence, ids: list[int]) -> np.ndarray:
    """Compute these tokens. -> i32[n_vocab], the bits of the logits after the last one"""
    logits = np.zeros(0, np.float32)
    for first in range(0, len(ids), N_BATCH):
        chunk = ids[first : first + N_BATCH]
        assert sequence.reserve(sequence.n_tokens + len(chunk))
        logits = model.step([Run(chunk, sequence.n_tokens, sequence.table, [len(chunk) - 1])])[0]
        sequence.commit(chunk)
    return logits.copy().view(np.int32)


def answer(model: Model, cache: KVCache, ids: list[int]) -> tuple[int, np.ndarray]:
    """-> tokens that were reused, bits of the logits after the prompt and after each of N_GREEDY tokens"""
    sequence = cache.begin(ids, N_CTX)
    out = [advance(model, sequence, ids[sequence.n_cached :])]
    for _ in range(N_GREEDY):
        out.append(advance(model, sequence, [int(out[-1].view(np.float32).argmax())]))
    n_cached = sequence.n_cached
    sequence.release()
    cache.check_integrity()
    return n_cached, np.stack(out)


def check_model(path: Path, folder: Path, n_prompt: int) -> None:
    gguf = open_gguf(path)
    hp = read_model(gguf, N_CTX)
    model = load_model(gguf, hp, KernelLibrary(), 2)
    rng = np.random.default_rng(0)
    prompt = rng.integers(10, 40_000, n_prompt).tolist()

    def cache(where: Path | None) -> KVCache:
        return KVCache(page_bytes(hp), ram_bytes=1 << 30, folder=where, fingerprint={}, disk_bytes=1 << 30)

    n_cached, cold = answer(model, cache(None), prompt)
    assert n_cached == 0
    first = cache(folder)
    n_cached, _ = answer(model, first, [*prompt[: n_prompt // 2], *prompt[:40]])
    n_cached, warm = answer(model, first, prompt)  # the first half is there, and ends in the midst of a page
    assert n_cached == n_prompt // 2 and np.array_equal(warm, cold)
    first.close()
    second = cache(folder)
    n_cached, restored = answer(model, second, prompt)
    assert n_cached == n_prompt - 1 and second.stats().n_restored > 0
    assert np.array_equal(restored, cold)
    second.close()
    model.close()


def test_smollm2(smollm2_path, tmp_path):
    check_model(smollm2_path, tmp_path, 333)


def test_gemma3_beyond_its_window(gemma3_path, tmp_path):
    check_model(gemma3_path, tmp_path, 700)
