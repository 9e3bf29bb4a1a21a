"""The recorder: a matrix reads the value that it was given, whatever has passed through the shared buffers since."""

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from reference.toy_file import Shape, Toy
from reference.vocabulary import N_VOCAB

from chenxing.config import read_settings
from chenxing.gguf import open_gguf
from chenxing.kernels.library import KernelLibrary
from chenxing.kernels.memory import address, aligned
from chenxing.kernels.team import Team
from chenxing.models.model import page_bytes, read_model
from chenxing.models.ops import Recorder
from chenxing.models.spec import find_architecture
from chenxing.models.step import Run, Step
from chenxing.models.values import Rows
from chenxing.models.weights import Weights

N_ROWS = 7  # more than are prepared by every thread for itself


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A recorder with the weights of a one-layer toy in Q8_0, whose input is quantised."""
    monkeypatch.setattr(
        "chenxing.models.weight_cache.settings", lambda: read_settings({"CHENXING_HOME": str(tmp_path)})
    )
    shape = Shape(n_layer=1, n_embd=64, n_head=2, n_head_kv=1, n_embd_head=32, n_ff=64)
    gguf = open_gguf(Toy("toy", "llama", shape, {}, ggml_type=GGMLQuantizationType.Q8_0).write(tmp_path))
    hp = read_model(gguf)
    weights = Weights(gguf, list(find_architecture(gguf).tensors(hp)))
    step = Step(N_ROWS, 1, N_VOCAB, 2, 1)
    page = aligned(page_bytes(hp))
    recorder = Recorder(hp, step, 1)

    def run() -> None:
        library = KernelLibrary()
        recorder.program.finish(library)
        team = Team(library, 1)
        step.fill([Run(range(N_ROWS), 0, np.array([address(page)]))])
        recorder.program.run(team, step.counters)
        team.close()

    return SimpleNamespace(g=recorder, w=weights, b=weights.layer(0), run=run)


def values(rows: Rows) -> np.ndarray:
    """f32[N_ROWS, n] as they are in memory."""
    whole = np.ctypeslib.as_array((ctypes.c_float * (N_ROWS * rows.stride // 4)).from_address(rows.address))
    return whole.reshape(N_ROWS, -1)[:, : rows.n].copy()


def test_a_value_is_prepared_again_after_another_has_taken_its_place(model: Any) -> None:
    g, b = model.g, model.b
    x = g.embed(model.w["token_embd"])
    h, other = g.rms_norm(x, b["attn_norm"]), g.rms_norm(x, b["ffn_norm"])
    (first,) = g.compute("first", g.linear(h, b["ffn_up"]))
    (between,) = g.compute("between", g.linear(other, b["ffn_up"]))
    (again,) = g.compute("again", g.linear(h, b["ffn_up"]))
    model.run()
    assert not np.array_equal(values(first), values(between))
    assert np.array_equal(values(first), values(again))


def test_rows_that_were_added_to_are_another_value(model: Any) -> None:
    g, b = model.g, model.b
    x = g.embed(model.w["token_embd"])
    (before,) = g.compute("before", g.linear(x, b["ffn_up"]))
    y = g.add(x, g.linear(x, b["ffn_up"]))
    (after,) = g.compute("after", g.linear(y, b["ffn_up"]))
    model.run()
    assert not np.array_equal(values(before), values(after))


def test_normed_rows_are_another_value(model: Any) -> None:
    g, b = model.g, model.b
    x = g.embed(model.w["token_embd"])
    (before,) = g.compute("before", g.linear(x, b["ffn_up"]))
    y = g.normed_rows(x, b["attn_norm"])
    (after,) = g.compute("after", g.linear(y, b["ffn_up"]))
    model.run()
    assert not np.array_equal(values(before), values(after))
