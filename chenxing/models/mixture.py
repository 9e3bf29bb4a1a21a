"""The ops of a mixture of experts (kernels/experts.py), and what they know about a step's pairs of token and expert."""

from dataclasses import dataclass

from chenxing.kernels import layout as L
from chenxing.models.program import Part
from chenxing.models.values import Operand, Rows
from chenxing.models.weights import Matrix

_EXPERTS, _QUANTS = "chenxing.kernels.experts", "chenxing.quants.kernels"


@dataclass(frozen=True)
class Pairs:
    """Addresses of arrays about the pairs (row, slot) of a step, n_batch * n_used at most.

    chosen  i64[n_pairs], their experts
    shares  f32[n_pairs], their weights in a row's sum
    places  i64[n_pairs], their rows in what experts read and write
    starts  i64[n_expert + 2], each expert's first place in steps of many rows
    """

    n_expert: int
    n_used: int
    chosen: int
    shares: int
    places: int
    starts: int

    def route(self, scores: Rows, scratch: tuple[int, int]) -> Part:
        """Fill chosen, shares and places."""
        args = [scores.address, scores.stride, self.n_expert, self.n_used, self.chosen, self.shares, self.places]
        return Part(f"{_EXPERTS}:route", [*args, *scratch], 1, L.N_ROWS)

    def group(self, counters: int) -> Part:
        """Sort places by expert, and fill starts."""
        args = [self.chosen, self.places, self.starts, self.n_expert, self.n_used, counters]
        return Part(f"{_EXPERTS}:group", args, 1)

    def spread(self, x: Operand, to: Operand) -> Part:
        """A row for each pair, from a row for each token."""
        assert to.stride == x.stride
        args = [x.address, x.stride, to.address, self.places, self.n_used]
        return Part(f"{_EXPERTS}:spread", args, 1, L.N_ROWS)

    def alone(self, w: Matrix, x: Operand, y: Rows, sharing: int) -> Part:
        """Each pair's expert times its x, which `sharing` pairs in a row have in common."""
        args = [*self._product(w, x, y), self.chosen, sharing]
        return Part(f"{_QUANTS}:expert_linear({w.quant.name})", args, self.n_used * w.n_chunks, L.N_ROWS)

    def grouped(self, w: Matrix, x: Operand, y: Rows) -> Part:
        """Each expert times all its places."""
        args = [*self._product(w, x, y), self.starts]
        return Part(f"{_QUANTS}:grouped_linear({w.quant.name})", args, self.n_expert * w.n_chunks)

    def combine(self, out: Rows, x: Rows) -> Part:
        """x += the sums of the pairs' outputs."""
        args = [out.address, out.stride, out.n, self.n_used, self.shares, self.places, x.address, x.stride]
        return Part(f"{_EXPERTS}:combine", args, 1, L.N_ROWS)

    def _product(self, w: Matrix, x: Operand, y: Rows) -> list[int]:
        args = [w.address, x.address, x.stride, x.each, w.n_blocks, w.n_tiles, w.tiles_per_chunk]
        return [*args, y.address, y.stride, w.expert_bytes]
