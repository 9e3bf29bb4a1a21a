"""Models with `int8`: which matrices it takes, the same bits in every cut and company, and how near it stays."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from reference.model import Reference
from reference.toys import TOYS, prompt
from runner import Runner

from chenxing import LLM
from chenxing.config import read_settings
from chenxing.errors import UnsupportedModelError, UsageError
from chenxing.gguf import open_gguf
from chenxing.kernels.library import KernelLibrary
from chenxing.models import weight_cache
from chenxing.models.int8 import with_int8
from chenxing.models.model import read_model
from chenxing.models.packing import pack_jobs, packed_size
from chenxing.models.spec import TensorSpec, find_architecture
from chenxing.models.weights import Weights
from chenxing.models.work import count_work

CUTS = ([1] * 80, [1, 7, 32], [4, 5, 3, 2], [33])
# Root mean square over a row's logits, whose standard deviation is 2 to 3, as in test_architectures.py
TOLERANCE = 0.5


@pytest.fixture(autouse=True)
def _packed_weights_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "chenxing.models.weight_cache.settings", lambda: read_settings({"CHENXING_HOME": str(tmp_path)})
    )


def specs_of(path: Path) -> list[TensorSpec]:
    """Those of the tensors that the file has."""
    model = open_gguf(path)
    specs = find_architecture(model).tensors(read_model(model))
    return [spec for spec in specs if spec.name in model.tensors or spec.fallback]


def same(x: np.ndarray, y: np.ndarray) -> bool:
    return x.shape == y.shape and x.tobytes() == y.tobytes()


@pytest.mark.parametrize("name", ["llama-F16", "llama-experts"])
def test_every_cut_and_company_has_the_same_bits(name: str, tmp_path: Path) -> None:
    toy, ids, other = TOYS[name], prompt(), prompt(50, seed=2)
    path = toy.write(tmp_path)
    runners = [Runner(path, KernelLibrary(), n_ctx=toy.n_ctx, n_threads=n, int8=True) for n in (1, 3)]
    whole, others = runners[0].logits(ids, [len(ids)]), runners[0].logits(other, [len(other)])
    for runner in runners:
        assert all(same(runner.logits(ids, sizes), whole) for sizes in CUTS)
        beside, others_beside = runner.together(ids, other, (13, 6))
        assert same(beside, whole) and same(others_beside, others)
        runner.close()
    wrong = np.abs(whole - Reference(path, n_ctx=toy.n_ctx).logits(ids))
    error = np.median(np.sqrt(np.square(wrong).mean(axis=1)))
    assert 1e-3 < error < TOLERANCE  # and it is int8 that ran


def test_projections_are_taken_and_nothing_else(tmp_path: Path) -> None:
    path = TOYS["llama-experts"].write(tmp_path)
    taken = {spec.name.split(".")[-2] for spec in with_int8(open_gguf(path), specs_of(path)) if spec.int8}
    experts = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}
    assert taken == {"attn_q", "attn_k", "attn_v", "attn_output"} | experts


def test_quantised_matrices_stay_as_they_are(tmp_path: Path) -> None:
    mixed = replace(TOYS["llama-F16"], name="mixed", mixed={"ffn": Type.Q8_0})
    path = mixed.write(tmp_path)
    taken = {spec.name.split(".")[-2] for spec in with_int8(open_gguf(path), specs_of(path)) if spec.int8}
    assert taken == {"attn_q", "attn_k", "attn_v", "attn_output"}


def test_rows_that_are_no_multiple_of_32_stay_as_they_are(tmp_path: Path) -> None:
    path = TOYS["llama-F16"].write(tmp_path)
    specs = [replace(spec, shape=(spec.shape[0], 40)) if "ffn_up" in spec.name else spec for spec in specs_of(path)]
    assert not any(spec.int8 for spec in with_int8(open_gguf(path), specs) if "ffn_up" in spec.name)


def test_a_file_without_floats_is_refused(tmp_path: Path) -> None:
    path = TOYS["llama-Q8_0"].write(tmp_path)
    with pytest.raises(UnsupportedModelError, match=r"int8 weights are made of F32, F16, BF16: .* found F32, Q8_0"):
        with_int8(open_gguf(path), specs_of(path))


def test_what_is_no_way_to_keep_weights_is_said() -> None:
    with pytest.raises(UsageError, match="weights: expected int8, found 'int4'"):
        LLM.load("no-such-model", weights="int4")


def test_they_are_other_weights(tmp_path: Path) -> None:
    """Their own packed file, and their own keys and values in the cache of prompts; a token reads fewer bytes."""
    path = TOYS["llama-F16"].write(tmp_path)
    gguf, hp = open_gguf(path), read_model(open_gguf(path))
    plain, int8 = (Weights(gguf, specs_of(path), int8=is_int8) for is_int8 in (False, True))
    assert plain.identity != int8.identity
    again = Weights(gguf, specs_of(path), int8=True)
    assert again.identity == int8.identity and again.origin == "mapped from the cache"
    assert len(list(tmp_path.glob("cache/weights/*.pack"))) == 1  # of one file the latest stays
    read = [count_work(hp, weights, "f16").weight_bytes for weights in (plain, int8)]
    head = plain["output"].read_bytes
    assert head < read[1] < 0.6 * (read[0] - head) + head  # half, and each tile's scales


def test_pieces_make_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = TOYS["llama-F16"].write(tmp_path)
    model = open_gguf(path)
    spec = next(spec for spec in with_int8(model, specs_of(path)) if "attn_q" in spec.name)
    whole = [job() for job in pack_jobs(model, spec, spec.name)]
    monkeypatch.setattr("chenxing.models.packing.PIECE_BYTES", 1)
    pieces = [job() for job in pack_jobs(model, spec, spec.name)]
    assert len(pieces) > len(whole) and np.array_equal(np.concatenate(pieces), np.concatenate(whole))
    assert packed_size(model, spec, spec.name) == sum(map(len, pieces))


def test_what_no_product_reads_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check at the start reads the file's own columns too."""
    asked: list[bool] = []
    real = weight_cache.map_packed

    def noted(path: Path, key: str, *, partly_read: bool) -> object:
        asked.append(partly_read)
        return real(path, key, partly_read=partly_read)

    monkeypatch.setattr(weight_cache, "map_packed", noted)
    path = TOYS["llama-F16"].write(tmp_path)
    for int8 in (True, False):
        Weights(open_gguf(path), specs_of(path), int8=int8)
    assert asked[0] and not asked[-1] and set(asked) == {True, False}
