"""A loaded model that runs steps: weights, a recorded program and the thread team."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from chenxing.gguf import GGUF
from chenxing.kernels.library import KernelLibrary, Progress
from chenxing.kernels.team import Team
from chenxing.models.hparams import check_numbers
from chenxing.models.ops import KVLayout, Recorder, kv_layer_bytes
from chenxing.models.spec import HParams, find_architecture
from chenxing.models.step import Run, Step
from chenxing.models.weights import Weights

N_BATCH = 256  # rows of a step, at most
N_OUTPUTS = 64  # rows of logits of a step, at most


class Model:
    """Runs batches of tokens against KV pages. Not thread-safe: one `step` at a time.

    page_bytes   size of one KV page: PAGE tokens, all layers
    """

    def __init__(self, hp: HParams, weights: Weights, step: Step, recorder: Recorder, team: Team) -> None:
        self.hp, self.weights = hp, weights
        self._step, self._program, self._kv, self._team = step, recorder.program, recorder.kv, team
        self.page_bytes = recorder.kv.page_bytes

    def step(self, runs: Sequence[Run]) -> np.ndarray:
        """Compute these tokens, write their KV to their pages and return the wanted logits.

        -> f32[n_outputs, n_vocab] in the order of the runs and their outputs; valid until the next step.
        At most N_BATCH tokens and N_OUTPUTS outputs. The logits of a row depend on its sequence alone, never on what
        else is in the batch or how the sequence was cut into runs.
        """
        self._step.fill(runs, self._kv.pool, self.page_bytes)
        self._program.run(self._team, self._step.counters)
        return self._step.logits

    @property
    def team(self) -> Team:
        """Its threads; other programs may run on them between steps."""
        return self._team

    def close(self) -> None:
        self._team.close()


def page_bytes(hp: HParams) -> int:
    return kv_layer_bytes(hp) * hp.n_layer


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
    pool: int,
    library: KernelLibrary,
    n_threads: int,
    on_progress: Progress | None = None,
) -> Model:
    """Weights packed or mapped, kernels compiled or found, program recorded.

    pool: address of the KV pages, each `page_bytes(hp)` long, zeroed at creation.
    """
    arch = find_architecture(model)
    weights = Weights(model, list(arch.tensors(hp)), on_progress)
    step = Step(N_BATCH, N_OUTPUTS, hp.n_vocab, hp.n_head // hp.n_head_kv)
    recorder = Recorder(hp, step, KVLayout(pool, page_bytes(hp), kv_layer_bytes(hp)), n_threads)
    arch.forward(hp, weights, recorder)
    recorder.program.finish(library, on_progress)
    return Model(hp, weights, step, recorder, Team(library, n_threads))


__all__ = ["N_BATCH", "N_OUTPUTS", "Model", "load_model", "page_bytes", "read_model"]
