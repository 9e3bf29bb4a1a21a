"""What tokens cost, counted: bytes that must come from memory, and multiply-adds."""

from dataclasses import dataclass

from chenxing.kernels.layout import PAGE
from chenxing.models.ops import kv_layer_bytes
from chenxing.models.spec import HParams
from chenxing.models.weights import Weights


@dataclass(frozen=True)
class Work:
    """The cost of tokens of one model. Norms, rotations and activations are left out: they are small.

    weight_bytes   packed weights that one token's step reads; of experts those that it uses
    layer_macs     multiply-adds of one row with all matrices but the output matrix
    output_macs    multiply-adds of one row of logits
    """

    hp: HParams
    weight_bytes: int
    layer_macs: int
    output_macs: int
    kv_type: str = "f16"

    def kv_bytes(self, first: int, n: int) -> int:
        """Bytes of keys and values that n steps of one token at positions first, first + 1, ... read."""
        return self._keys(first, n) * kv_layer_bytes(self.hp, self.kv_type) // PAGE

    def prompt_macs(self, first: int, n: int) -> int:
        """Multiply-adds of n tokens from position `first` on, with one row of logits at the end."""
        return n * self.layer_macs + 2 * self.hp.n_q * self._keys(first, n) + self.output_macs

    def _keys(self, first: int, n: int) -> int:
        """Keys that n rows see from position `first` on, in all layers together."""
        n_window = sum(self.hp.extra.get("is_swa", ()))
        seen = range(first + 1, first + n + 1)
        in_windows = sum(min(k, self.hp.extra["n_swa"]) for k in seen) if n_window else 0
        return (self.hp.n_layer - n_window) * sum(seen) + n_window * in_windows


def count_work(hp: HParams, weights: Weights, kv_type: str) -> Work:
    n_bytes = macs = output_macs = 0
    for name, matrix in weights.matrices():
        n_used = hp.extra["n_expert_used"] if matrix.n_expert > 1 else 1
        n_bytes += n_used * matrix.read_bytes
        if name == "output":
            output_macs = matrix.n_out * matrix.n_in
        else:
            macs += n_used * matrix.n_out * matrix.n_in
    return Work(hp, n_bytes, macs, output_macs, kv_type)
