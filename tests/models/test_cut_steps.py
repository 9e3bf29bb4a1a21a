"""A model's step that ends early, at any of its ops, leaves nothing behind that a later step could see."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
from reference.toys import TOYS, prompt

from chenxing.gguf import open_gguf
from chenxing.kernels.cut import Cut, StepCut
from chenxing.kernels.layout import PAGE
from chenxing.kernels.library import KernelLibrary
from chenxing.kernels.memory import address, aligned
from chenxing.models import Run, load_model
from chenxing.models.model import page_bytes, read_model
from chenxing.models.program import Part

N_PROMPT = 40


class CutAnywhere:
    """A model that ends its next step in the op `at`, if that is in the step: each op has one chunk more, its first."""

    def __init__(self, path: Path, n_threads: int, *, int8: bool) -> None:
        gguf, library = open_gguf(path), KernelLibrary()
        hp = read_model(gguf, 2 * PAGE)
        self.at: int | None = None
        self._cut = Cut()
        self.model = load_model(gguf, hp, library, n_threads, weight_cache=False, int8=int8, cut=self._cut)
        self._callback = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(self._in_op)
        library.addresses["test"] = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        ops = self.model._program._ops
        self.n_ops = len(ops)
        ops[:] = [([Part("test", [i], 1), *parts], *others) for i, (parts, *others) in enumerate(ops)]
        self.model._program.finish(library)
        self._memory = aligned((2, page_bytes(hp)))
        self._pages = address(self._memory) + np.arange(2) * self._memory.shape[1]

    def step(self, first: int, tokens: list[int]) -> np.ndarray:
        """The logits of the last token. Raises StepCut."""
        self._now = self._cut.begin()
        return self.model.step([Run(tokens, first, self._pages, (len(tokens) - 1,))]).copy()

    def forget(self) -> None:
        """Keys and values of another text are in the pages."""
        self.at = None
        self.step(0, prompt(N_PROMPT + 1, 9))

    def _in_op(self, args: int, _chunk: int, _tid: int) -> None:
        if ctypes.c_int64.from_address(args).value == self.at:
            self._cut.end(self._now)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("name", "int8"), [("qwen3moe-Q4_K", False), ("gemma3-Q8_0", False), ("llama-F16", True)], ids=lambda x: str(x)
)
def test_the_step_that_is_repeated_has_the_same_bits(name: str, int8: bool, n_threads: int, tmp_path: Path) -> None:
    toy = CutAnywhere(TOYS[name].write(tmp_path), n_threads, int8=int8)
    ids = prompt(N_PROMPT + 1, 1)
    steps = [(0, ids[:N_PROMPT]), (N_PROMPT, ids[N_PROMPT:])]  # a prompt, and a token of an answer
    expected = [toy.step(*step) for step in steps]
    n_cut = [0, 0]
    for at in range(toy.n_ops):
        toy.forget()
        for i, step in enumerate(steps):
            toy.at = at
            try:
                logits = toy.step(*step)
            except StepCut:
                n_cut[i] += 1
                toy.at = None
                logits = toy.step(*step)
            assert np.array_equal(logits, expected[i])
    toy.model.close()
    assert min(n_cut) > toy.n_ops // 2  # some are for few rows alone, or for many
