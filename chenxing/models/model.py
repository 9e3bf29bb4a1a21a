"""A loaded model that runs steps: weights, a recorded program and the thread team."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from chenxing.gguf import GGUF
from chenxing.kernels.cut import Cut
from chenxing.kernels.library import KernelLibrary, Progress
from chenxing.kernels.team import Team
from chenxing.models.hparams import check_numbers
from chenxing.models.ops import Recorder, kv_layer_bytes
from chenxing.models.spec import HParams, find_architecture
from chenxing.models.step import Run, Step
from chenxing.models.weights import Weights

N_BATCH = 256  # rows of a step, at most
N_OUTPUTS = 64  # rows of logits of a step, at most


class Model:
    """Runs batches of tokens against KV pages. Not thread-safe: one `step` at a time."""

    def __init__(self, hp: HParams, weights: Weights, step: Step, recorder: Recorder, team: Team) -> None:
        self.hp, self.weights = hp, weights
        self._step, self._program, self._team = step, recorder.program, team

    def step(self, runs: Sequence[Run]) -> np.ndarray:
        """Compute these tokens, write their KV to their pages and return the wanted logits.

        -> f32[n_outputs, n_vocab] in the order of the runs and their outputs; valid until the next step.
        At most N_BATCH tokens and N_OUTPUTS outputs. The logits of a row depend on its sequence alone, never on what
        else is in the batch or how the sequence was cut into runs. Raises StepCut; what lies behind the tokens that the
        pages had before is void then.
        """
        self._step.fill(runs)
        self._program.run(self._team, self._step.counters)
        return self._step.logits

    @property
    def team(self) -> Team:
        """Its threads; other programs may run on them between steps."""
        return self._team

    def close(self) -> None:
        self._team.close()


def page_bytes(hp: HParams, kv_type: str = "f16") -> int:
    """Size of one KV page: PAGE tokens, all layers. It must be zeroed at creation and start on a cache line."""
    return kv_layer_bytes(hp, kv_type) * hp.n_layer


def read_model(model: GGUF, n_ctx: int | None = None) -> HParams:
    """The hyperparameters alone, without loading anything.

    n_ctx: the context that the model will run with, its own by default; beyond the original context of a model with
    LongRoPE other rotations apply, to all positions.
    """
    arch = find_architecture(model)
    check_numbers(model)
    hp = arch.hparams(model)
    longrope = "rope_factors_long.weight" in model.tensors
    return replace(hp, long_context=longrope and (n_ctx or hp.n_ctx_train) > hp.rope.n_ctx_orig)


def load_model(
    model: GGUF,
    hp: HParams,
    library: KernelLibrary,
    n_threads: int,
    on_progress: Progress | None = None,
    kv_type: str = "f16",
    *,
    weight_cache: bool = True,
    int8: bool = False,
    cut: Cut | None = None,
) -> Model:
    """Weights packed or mapped, kernels compiled or found, program recorded.

    kv_type       how the pages hold keys and values, one of KV_TYPES
    weight_cache  False packs the weights in memory, without looking into the cache or writing to it
    int8          float matrices of the layers as int8, with outliers apart (LLM.int8())
    cut           what ends its steps early, if anybody does
    """
    arch = find_architecture(model)
    weights = Weights(model, list(arch.tensors(hp)), on_progress, use_cache=weight_cache, int8=int8)
    step = Step(N_BATCH, N_OUTPUTS, hp.n_vocab, hp.n_head, hp.n_head_kv, n_threads)
    recorder = Recorder(hp, step, n_threads, kv_type)
    arch.forward(hp, weights, recorder)
    recorder.program.finish(library, on_progress)
    return Model(hp, weights, step, recorder, Team(library, n_threads, cut))


__all__ = ["N_BATCH", "N_OUTPUTS", "Model", "load_model", "page_bytes", "read_model"]
