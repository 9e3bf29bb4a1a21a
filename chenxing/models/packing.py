"""GGUF tensors -> what kernels read: tiles of 16 rows for matrices, f32 for vectors.

A weight type without a kernel of its own is decoded once and packed as F16.
"""

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from chenxing.errors import ModelFileError, UnsupportedModelError
from chenxing.gguf import GGUF, TensorInfo
from chenxing.models.spec import TensorSpec
from chenxing.quants import GGML_TYPES, INT8, QUANTS, TILE_ROWS, QuantType
from chenxing.quants.int8 import pack_columns, point_to_columns

PIECE_BYTES = 1 << 19  # what a thread packs at a time: temporary arrays stay in its cache, calls of numpy do not count


def packed_type(tensor: TensorInfo, *, int8: bool = False) -> QuantType:
    """The format that this tensor's matrix is packed in. int8: it is of a float type."""
    name = GGML_TYPES[tensor.ggml_type].name
    return INT8[name] if int8 else QUANTS.get(name, QUANTS["F16"])


def is_decoded(tensor: TensorInfo) -> bool:
    """Whether the tensor's type has no kernel, so that it is decoded when it is packed."""
    return GGML_TYPES[tensor.ggml_type].name not in QUANTS


def check_shape(model: GGUF, tensor: TensorInfo, spec: TensorSpec) -> None:
    if tuple(tensor.shape) != spec.shape:
        raise ModelFileError(
            model.path, f"tensor {tensor.name!r}", f"shape {list(spec.shape)}", f"shape {list(tensor.shape)}"
        )


def vector_f32(model: GGUF, name: str) -> np.ndarray:
    """A tensor of any type as f32, flat."""
    tensor = model.tensors[name]
    data = model.data(name)
    kind = GGML_TYPES[tensor.ggml_type].name
    if kind == "F32":
        return data.view(np.float32)
    if kind == "F16":
        return data.view(np.float16).astype(np.float32)
    if kind == "BF16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return _dequantise(model, tensor, slice(None)).reshape(-1)


def _dequantise(model: GGUF, tensor: TensorInfo, rows: "slice | np.ndarray") -> np.ndarray:
    """f32[rows, n_in] by the gguf package's reference."""
    import gguf

    kind = gguf.GGMLQuantizationType(tensor.ggml_type)
    try:
        return gguf.quants.dequantize(model.data(tensor.name).reshape(_n_rows(tensor), -1)[rows], kind)
    except NotImplementedError as e:
        raise UnsupportedModelError(
            f"{model.path}: tensor {tensor.name!r}: weight type {kind.name} cannot be decoded"
        ) from e


def _n_rows(tensor: TensorInfo) -> int:
    return int(np.prod(tensor.shape[:-1]))


def file_blocks(model: GGUF, name: str, rows: "slice | np.ndarray") -> np.ndarray:
    """Rows of a tensor as blocks of the type that they are packed in: u8[rows, n_blocks, type_size]."""
    tensor = model.tensors[name]
    if is_decoded(tensor):
        data = _dequantise(model, tensor, rows).astype(np.float16).view(np.uint8)
    else:
        data = model.data(name).reshape(_n_rows(tensor), -1)[rows]
    return data.reshape(len(data), -1, packed_type(tensor).type.type_size)


def rope_order(n_rows: int, rope_dims: tuple[int, int]) -> np.ndarray:
    """Which file row stands at each packed row: pairs (2i, 2i + 1) of the first n_rot of every head move apart."""
    head_dim, n_rot = rope_dims
    order = np.arange(head_dim)
    order[:n_rot] = np.concatenate([np.arange(0, n_rot, 2), np.arange(1, n_rot, 2)])
    return (np.arange(0, n_rows, head_dim)[:, None] + order).reshape(-1)


def pack_matrix(quant: QuantType, blocks: np.ndarray) -> np.ndarray:
    """u8[rows, n_blocks, type_size] -> u8[n_tiles, n_blocks, packed_bytes]; missing rows of the last tile are zero."""
    missing = -len(blocks) % TILE_ROWS
    if missing:
        blocks = np.concatenate([blocks, np.zeros((missing, *blocks.shape[1:]), np.uint8)])
    return quant.pack(blocks)


def packed_size(model: GGUF, spec: TensorSpec, name: str) -> int:
    """Bytes of this tensor of the file, packed for `spec`."""
    if spec.kind == "vector":
        return spec.shape[0] * 4
    quant = packed_type(model.tensors[name], int8=spec.int8)
    n_experts = spec.shape[0] if spec.kind == "experts" else 1
    n_tiles, n_blocks = -(-spec.shape[-2] // TILE_ROWS), spec.shape[-1] // quant.type.block_size
    return n_experts * quant.matrix_bytes(n_tiles, n_blocks)


def pack_jobs(model: GGUF, spec: TensorSpec, name: str) -> Iterable[Callable[[], np.ndarray]]:
    """The packing of this tensor of the file, in pieces: calls that return u8 flat, together what kernels read.

    Calls may run side by side; each takes a few times PIECE_BYTES of memory. Experts are packed one after another.
    """
    if spec.kind == "vector":
        yield partial(_pack_vector, model, spec, name)
        return
    n_out, n_in = spec.shape[-2:]
    quant = packed_type(model.tensors[name], int8=spec.int8)
    step = max(1, PIECE_BYTES // quant.tile_bytes(n_in // quant.type.block_size)) * TILE_ROWS
    order = rope_order(n_out, spec.rope_dims) if spec.rope_dims else None
    for expert in range(spec.shape[0] if spec.kind == "experts" else 1):
        start = expert * n_out
        for first in range(0, n_out, step):
            rows = slice(first, min(first + step, n_out))
            file_rows = slice(start + rows.start, start + rows.stop) if order is None else order[rows]
            yield partial(_pack_rows, model, quant, name, file_rows, first, n_out)
        if quant.column_bytes:
            yield from _column_jobs(model, spec, quant, name, slice(start, start + n_out) if order is None else order)


def _pack_vector(model: GGUF, spec: TensorSpec, name: str) -> np.ndarray:
    values = vector_f32(model, name)
    if spec.rope_dims:
        values = values[rope_order(len(values), spec.rope_dims)]
    return np.ascontiguousarray(values).view(np.uint8)


def _column_jobs(
    model: GGUF, spec: TensorSpec, quant: QuantType, name: str, rows: "slice | np.ndarray"
) -> Iterable[Callable[[], np.ndarray]]:
    """The columns of these rows of the file, some at a time."""
    n_out, n_in = spec.shape[-2:]
    step = max(1, PIECE_BYTES // (-(-n_out // TILE_ROWS) * quant.column_bytes))
    for first in range(0, n_in, step):
        yield partial(_pack_columns, model, quant, name, rows, slice(first, first + step))


def _pack_columns(model: GGUF, quant: QuantType, name: str, rows: "slice | np.ndarray", columns: slice) -> np.ndarray:
    blocks = model.data(name).reshape(_n_rows(model.tensors[name]), -1, quant.type.type_size)
    return pack_columns(blocks[:, columns][rows]).reshape(-1)


def _pack_rows(
    model: GGUF, quant: QuantType, name: str, rows: "slice | np.ndarray", first: int, n_out: int
) -> np.ndarray:
    """These rows of the file, of which the first is row `first` of a matrix of n_out."""
    tiles = pack_matrix(quant, file_blocks(model, name, rows))
    if quant.column_bytes:
        point_to_columns(quant, tiles, first // TILE_ROWS, -(-n_out // TILE_ROWS))
    return tiles.reshape(-1)
