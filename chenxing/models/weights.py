"""A model's weights in memory, ready for kernels: mapped from the packed file in the cache, or packed just now."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from chenxing.errors import ModelFileError, UnsupportedModelError
from chenxing.gguf import GGUF
from chenxing.kernels.memory import address, aligned
from chenxing.models.int8 import with_int8
from chenxing.models.packed_stream import source_name
from chenxing.models.packing import check_shape, file_blocks, is_decoded, packed_type
from chenxing.models.spec import TensorSpec
from chenxing.models.weight_cache import Packed, open_packed
from chenxing.quants import GGML_TYPES, TILE_ROWS, QuantType

CHUNK_BYTES = 48 * 1024  # of weights: enough work to hide a claim, few enough to share out evenly

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Matrix:
    """Packed tiles of n_out x n_in weights at `address`; experts follow each other `expert_bytes` apart."""

    address: int
    quant: QuantType
    n_out: int
    n_in: int
    n_expert: int = 1

    @property
    def n_blocks(self) -> int:
        return self.n_in // self.quant.type.block_size

    @property
    def n_tiles(self) -> int:
        return -(-self.n_out // TILE_ROWS)

    @property
    def tile_bytes(self) -> int:
        return self.quant.tile_bytes(self.n_blocks)

    @property
    def expert_bytes(self) -> int:
        return self.quant.matrix_bytes(self.n_tiles, self.n_blocks)

    @property
    def read_bytes(self) -> int:
        """Of one expert, those that every product reads."""
        return self.n_tiles * self.tile_bytes

    @property
    def tiles_per_chunk(self) -> int:
        return max(1, CHUNK_BYTES // self.tile_bytes)

    @property
    def n_chunks(self) -> int:
        """Chunks of one expert."""
        return -(-self.n_tiles // self.tiles_per_chunk)


@dataclass(frozen=True)
class Table:
    """Rows of blocks as the file has them, for the embedding look-up."""

    address: int
    quant: QuantType
    n_rows: int
    n: int

    @property
    def row_bytes(self) -> int:
        return self.n // self.quant.type.block_size * self.quant.type.type_size


class Weights:
    """All tensors of a model by name, without the suffix ".weight".

    Owns the memory: mapped file or arrays live as long as this object.

    int8     see models/int8.py
    origin   where packed weights are from, in words
    notices  what a user should know about them, in sentences
    """

    def __init__(
        self,
        model: GGUF,
        specs: list[TensorSpec],
        on_progress: Progress | None = None,
        *,
        use_cache: bool = True,
        int8: bool = False,
    ) -> None:
        self._model = model
        check_tensors(model, specs)
        present = [s for s in specs if s.name in model.tensors or s.fallback]
        self._present = with_int8(model, present) if int8 else present
        packed_specs = [s for s in self._present if s.kind != "table"]
        self._packed: Packed = open_packed(model, packed_specs, on_progress, use_cache=use_cache)
        self.origin, self.notices = self._packed.origin, decoding_notices(model, self._present)
        self._decoded: list[np.ndarray] = []
        self._items = {s.name.removesuffix(".weight"): self._item(s) for s in self._present}

    def __getitem__(self, name: str) -> "Matrix | Table | np.ndarray":
        return self._items[name]

    def get(self, name: str) -> "Matrix | Table | np.ndarray | None":
        return self._items.get(name)

    def layer(self, i: int) -> "Layer":
        return Layer(self, f"blk.{i}.")

    def matrices(self) -> Iterator[tuple[str, Matrix]]:
        """Every matrix that a step multiplies with, and its name."""
        return ((name, item) for name, item in self._items.items() if isinstance(item, Matrix))

    @property
    def n_bytes(self) -> int:
        return self._packed.n_bytes

    @property
    def identity(self) -> str:
        """Equal for equal weights, whatever their file is called, wherever and however old it is."""
        return self._packed.identity

    def _item(self, spec: TensorSpec) -> "Matrix | Table | np.ndarray":
        name = source_name(self._model, spec)
        tensor = self._model.tensors[name]
        if spec.kind == "vector":
            return self._packed.array(spec.name).view(np.float32)
        quant = packed_type(tensor, int8=spec.int8)
        if spec.kind == "table":
            return Table(self._table_address(name), quant, *spec.shape)
        where = address(self._packed.array(spec.name))
        return Matrix(where, quant, spec.shape[-2], spec.shape[-1], spec.shape[0] if spec.kind == "experts" else 1)

    def _table_address(self, name: str) -> int:
        if not is_decoded(self._model.tensors[name]):
            return address(self._model.data(name))
        blocks = file_blocks(self._model, name, slice(None))
        table = aligned(blocks.size)
        table[:] = blocks.reshape(-1)
        self._decoded.append(table)
        return address(table)


@dataclass(frozen=True)
class Layer:
    """Weights of one layer by their names within it."""

    weights: Weights
    prefix: str

    def __getitem__(self, name: str) -> "Matrix | Table | np.ndarray":
        return self.weights[self.prefix + name]

    def get(self, name: str) -> "Matrix | Table | np.ndarray | None":
        return self.weights.get(self.prefix + name)


def check_tensors(model: GGUF, specs: list[TensorSpec]) -> None:
    """Every tensor that the architecture needs is there, of the right shape, and nothing that it would ignore."""
    for spec in specs:
        tensor = model.tensors.get(spec.name) or model.tensors.get(spec.fallback or "")
        if tensor is not None:
            check_shape(model, tensor, spec)
        elif not spec.optional:
            raise ModelFileError(
                model.path, f"tensor {spec.name!r}", "a tensor of this name", "none", "The file is incomplete"
            )
    unknown = sorted(model.tensors.keys() - {s.name for s in specs})
    if unknown:
        more = f" and {len(unknown) - 4} more" if len(unknown) > 4 else ""
        raise UnsupportedModelError(
            f"{model.path}: tensors that {model.architecture!r} does not have here: {', '.join(unknown[:4])}{more}; "
            "running without them would give wrong answers"
        )


def decoding_notices(model: GGUF, specs: list[TensorSpec]) -> list[str]:
    """A sentence for each weight type without a kernel: how many matrices are decoded, and their size then."""
    sizes: dict[str, dict[str, int]] = {}  # by type and by tensor of the file, of which a tied one serves twice
    for spec in specs:
        name = source_name(model, spec)
        if spec.kind != "vector" and is_decoded(model.tensors[name]):
            of_type = sizes.setdefault(GGML_TYPES[model.tensors[name].ggml_type].name, {})
            of_type[name] = of_type.get(name, 0) + math.prod(spec.shape) * np.dtype(np.float16).itemsize
    return [_decoding_notice(kind, len(of_type), sum(of_type.values())) for kind, of_type in sizes.items()]


def _decoding_notice(kind: str, n: int, n_bytes: int) -> str:
    what, own = (f"1 tensor of type {kind} is", "its") if n == 1 else (f"{n} tensors of type {kind} are", "their")
    size = f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"
    return f"{what} decoded to F16 (no kernel of {own} own): {size}"
