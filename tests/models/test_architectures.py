"""Every architecture in one test: right at every position, and the same bits however the work is cut and shared."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from reference.model import Reference
from reference.toy_file import Shape, Toy
from reference.toys import FLOAT_TOYS, GEMMA2, LONGROPE, LONGROPE_FACTORS, OLMO3, TOYS, YARN, prompt
from runner import Runner

from chenxing.config import read_settings
from chenxing.errors import UnsupportedModelError
from chenxing.gguf import open_gguf
from chenxing.kernels.library import KernelLibrary
from chenxing.models import ARCHITECTURES
from chenxing.models.spec import find_architecture

# Largest error of any logit (standard deviation 2 to 3) with exact weights: KV is kept in f16, 2^-12 of every key and
# value, which measures 0.01 to 0.04. It turns a near tie of experts now and then, and sixty layers amplify it.
FLOAT_TOLERANCE, AMPLIFIED_TOLERANCE = 0.06, 0.15
# Of the root mean square over a row's logits, for the middle row: int8 activations measure 0.05 to 0.3, a mistake 3 or
# more. test_toys.py holds the average to llama.cpp's.
QUANTISED_TOLERANCE = 0.5

CUTS = ([1] * 80, [1, 7, 32], [4, 5, 3, 2], [33])


@pytest.fixture(scope="session")
def library() -> KernelLibrary:
    return KernelLibrary()


@pytest.fixture(autouse=True)
def _packed_weights_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels come from the user's cache, the toys' weights do not go there."""
    monkeypatch.setattr(
        "chenxing.models.weight_cache.settings", lambda: read_settings({"CHENXING_HOME": str(tmp_path)})
    )


@pytest.fixture
def run(
    request: pytest.FixtureRequest, tmp_path: Path, library: KernelLibrary
) -> Iterator[tuple[Toy, Path, list[Runner]]]:
    """A toy, its file and the model on 1, 2 and 3 threads."""
    toy = TOYS[request.param]
    path = toy.write(tmp_path)
    runners = [Runner(path, library, n_ctx=toy.n_ctx, n_threads=n) for n in (1, 2, 3)]
    yield toy, path, runners
    for runner in runners:
        runner.close()


def error(ours: np.ndarray, path: Path, n_ctx: int, ids: list[int]) -> np.ndarray:
    return np.abs(ours - Reference(path, n_ctx=n_ctx).logits(ids))


def same(x: np.ndarray, y: np.ndarray) -> bool:
    """To the last bit, signs of zeros included."""
    return x.shape == y.shape and x.tobytes() == y.tobytes()


def test_no_architecture_is_missing_here() -> None:
    assert {toy.architecture for toy in TOYS.values()} == set(ARCHITECTURES)


@pytest.mark.parametrize("run", TOYS, indirect=True)
def test_toy(run: tuple[Toy, Path, list[Runner]]) -> None:
    """Laws L1 and L2, and the maths."""
    toy, path, runners = run
    ids, other = prompt(), prompt(50, seed=2)
    whole, others = runners[0].logits(ids, [len(ids)]), runners[0].logits(other, [len(other)])
    assert np.isfinite(whole).all()
    for runner in runners:
        for sizes in CUTS:
            assert same(runner.logits(ids, sizes), whole), sizes
        assert same(runner.logits(ids, [len(ids)]), whole)
        beside, others_beside = runner.together(ids, other, (13, 6))
        assert same(beside, whole) and same(others_beside, others)
    wrong = error(whole, path, toy.n_ctx, ids)
    if toy.name in FLOAT_TOYS:
        amplified = toy.shape.n_expert or toy.shape.n_layer > 40
        assert wrong.max() < (AMPLIFIED_TOLERANCE if amplified else FLOAT_TOLERANCE)
    else:
        assert np.median(np.sqrt(np.square(wrong).mean(axis=1))) < QUANTISED_TOLERANCE


@pytest.mark.parametrize("name", ["llama", "gemma2", "olmo3"])
def test_long_context(name: str, tmp_path: Path, library: KernelLibrary) -> None:
    """Several segments of attention, windows that begin in the middle of one."""
    toy, ids = TOYS[name], prompt(1100)
    path = toy.write(tmp_path)
    runner = Runner(path, library, n_ctx=toy.n_ctx, n_threads=2, max_tokens=len(ids))
    whole = runner.logits(ids, [256] * 4)
    assert same(runner.logits(ids, [250, 13, 249, 1, 100, 200, 200]), whole)
    runner.close()
    assert error(whole, path, toy.n_ctx, ids).max() < FLOAT_TOLERANCE


@pytest.mark.parametrize(
    ("kv_type", "tolerance"), [("f32", 1e-3), ("bf16", 8 * FLOAT_TOLERANCE), ("q8_0", 16 * FLOAT_TOLERANCE)]
)
def test_kv_types(kv_type: str, tolerance: float, tmp_path: Path, library: KernelLibrary) -> None:
    """Where f16 loses 2^-12 of a value, bf16 loses 2^-9 of it, and q8_0 1/254 of the largest in its strip.

    The errors grow in proportion: 16 times f16's is 0.6, and q8_0 measures 0.53.
    """
    toy, ids = TOYS["llama"], prompt()
    path = toy.write(tmp_path)
    runner = Runner(path, library, n_ctx=toy.n_ctx, n_threads=2, kv_type=kv_type)
    whole = runner.logits(ids, [len(ids)])
    assert all(same(runner.logits(ids, sizes), whole) for sizes in CUTS)
    runner.close()
    assert error(whole, path, toy.n_ctx, ids).max() < tolerance


WINDOWS = {"attention.sliding_window": 24, "attention.sliding_window_pattern": [False, True, True, False]}
OTHER_KEYS: dict[str, Toy] = {
    toy.name: toy
    for toy in (
        Toy("gemma2-defaults", "gemma2", Shape(), {}, tied=True),
        Toy("gemma2-base-in-windows", "gemma2", Shape(), {**GEMMA2, "rope.freq_base_swa": 500.0}, tied=True),
        Toy("gemma2-pattern", "gemma2", Shape(), {**GEMMA2, **WINDOWS}, tied=True),
        Toy("gemma3-base-in-windows", "gemma3", Shape(), {**WINDOWS, "rope.freq_base_swa": 500.0}, tied=True),
        Toy("gemma3-cap", "gemma3", Shape(), {**WINDOWS, "final_logit_softcapping": 6.0}, tied=True),
        Toy("granite-defaults", "granite", Shape(), {"logit_scale": 1.3}),
        Toy("olmo3-pattern", "olmo2", Shape(), {**OLMO3, **WINDOWS}),
        Toy("llama-partial", "llama", Shape(), {"rope.dimension_count": 24}),
        Toy("llama-longrope", "llama", Shape(), LONGROPE, factors=LONGROPE_FACTORS, n_ctx=512),
        Toy("llama-old-scale", "llama", Shape(), {"rope.scale_linear": 4.0}),
        Toy("qwen2-unscaled", "qwen2", Shape(), {"rope.scaling.type": "none", "rope.scaling.factor": 4.0}),
        Toy("qwen3-yarn-factor", "qwen3", Shape(), {**YARN, "rope.scaling.attn_factor": 1.3}),
    )
}


@pytest.mark.parametrize("name", OTHER_KEYS)
def test_keys_that_no_toy_has(name: str, tmp_path: Path, library: KernelLibrary) -> None:
    toy = OTHER_KEYS[name]
    path = toy.write(tmp_path)
    runner = Runner(path, library, n_ctx=toy.n_ctx)
    logits = runner.logits(prompt(), [])
    runner.close()
    assert error(logits, path, toy.n_ctx, prompt()).max() < FLOAT_TOLERANCE


def test_llama_with_a_window(tmp_path: Path, library: KernelLibrary) -> None:
    """As Mistral 7B was trained. llama.cpp runs such files without it, and so does the reference unless it is told."""
    toy = Toy("window", "llama", Shape(), {"attention.sliding_window": 24})
    path = toy.write(tmp_path)
    runner = Runner(path, library, n_ctx=toy.n_ctx)
    logits = runner.logits(prompt(), [])
    runner.close()
    reference = Reference(path)
    hp = reference.hparams
    reference.hparams = replace(hp, is_swa=(True,) * hp.n_layer, n_swa=24, rope_swa=hp.rope)
    assert np.abs(logits - reference.logits(prompt())).max() < FLOAT_TOLERANCE


def test_an_unknown_architecture_is_told_what_is_known() -> None:
    tensors = dict.fromkeys(("token_embd.weight", "blk.0.ssm_in.weight", "blk.1.ssm_in.weight", "blk.0.ssm_d"))
    with pytest.raises(UnsupportedModelError) as caught:
        find_architecture(SimpleNamespace(path="m.gguf", architecture="mamba", tensors=tensors))  # type: ignore[arg-type]
    text = str(caught.value)
    assert text.startswith("m.gguf: architecture 'mamba' is not supported; known are gemma2, gemma3, granite, llama, ")
    assert text.endswith("Its layers hold: ssm_d, ssm_in.weight")


@dataclass(frozen=True)
class Biased(Toy):
    """A toy with more tensors, by name and shape."""

    more: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def _tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        yield from super()._tensors()
        yield from self.more


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_every_optional_tensor(name: str, tmp_path: Path, library: KernelLibrary) -> None:
    """What an architecture lists as optional is computed with where a file has it; the reference uses all it finds."""
    plain = next(toy for toy in FLOAT_TOYS.values() if toy.architecture == name and not toy.factors)
    arch = ARCHITECTURES[name]
    optional = [spec for spec in arch.tensors(arch.hparams(open_gguf(plain.write(tmp_path)))) if spec.optional]
    factors = [spec for spec in optional if spec.name.startswith("rope_f")]
    biases = [(spec.name, spec.shape) for spec in optional if spec.name.endswith(".bias")]
    assert len(factors) in (0, 3) and len(factors) + len(biases) == len(optional)
    toy = Biased(
        "more", name, plain.shape, plain.metadata, factors=("rope_freqs.weight",) if factors else (), more=tuple(biases)
    )
    path = toy.write(tmp_path)
    runner = Runner(path, library, n_ctx=toy.n_ctx)
    logits = runner.logits(prompt(), [])
    runner.close()
    assert error(logits, path, toy.n_ctx, prompt()).max() < AMPLIFIED_TOLERANCE
