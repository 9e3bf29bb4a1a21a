"""GGUF tensors -> what kernels read: tiles of 16 rows for matrices, f32 for vectors.

A weight type without a kernel of its own is decoded once and packed as F16.
"""

import numpy as np

from chenxing.errors import ModelFileError, UnsupportedModelError
from chenxing.gguf import GGUF, TensorInfo
from chenxing.models.spec import TensorSpec
from chenxing.quants import GGML_TYPES, QUANTS, TILE_ROWS, QuantType


def packed_type(tensor: TensorInfo) -> QuantType:
    """The format that this tensor's matrix is packed in."""
    return QUANTS.get(GGML_TYPES[tensor.ggml_type].name, QUANTS["F16"])


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
    return _dequantise(model, tensor).reshape(-1)


def _dequantise(model: GGUF, tensor: TensorInfo) -> np.ndarray:
    """f32[rows, n_in] by the gguf package's reference."""
    import gguf

    kind = gguf.GGMLQuantizationType(tensor.ggml_type)
    rows = int(np.prod(tensor.shape[:-1]))
    try:
        return gguf.quants.dequantize(model.data(tensor.name).reshape(rows, -1), kind)
    except NotImplementedError as e:
        raise UnsupportedModelError(
            f"{model.path}: tensor {tensor.name!r}: weight type {kind.name} cannot be decoded"
        ) from e


def file_blocks(model: GGUF, name: str) -> tuple[QuantType, np.ndarray]:
    """The tensor's rows as blocks of a type with kernels: u8[rows, n_blocks, type_size]."""
    tensor = model.tensors[name]
    quant = packed_type(tensor)
    rows = int(np.prod(tensor.shape[:-1]))
    if is_decoded(tensor):
        data = _dequantise(model, tensor).astype(np.float16).view(np.uint8)
    else:
        data = model.data(name)
    return quant, data.reshape(rows, -1, quant.type.type_size)


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


def pack_tensor(model: GGUF, spec: TensorSpec, name: str) -> np.ndarray:
    """The bytes that kernels read for this tensor of the file, u8 flat. Experts are packed one after another."""
    if spec.kind == "vector":
        values = vector_f32(model, name)
        if spec.rope_dims:
            values = values[rope_order(len(values), spec.rope_dims)]
        return np.ascontiguousarray(values).view(np.uint8)
    quant, blocks = file_blocks(model, name)
    if spec.kind == "experts":
        parts = [pack_matrix(quant, b) for b in blocks.reshape(spec.shape[0], spec.shape[1], *blocks.shape[1:])]
        return np.concatenate(parts).reshape(-1)
    if spec.rope_dims:
        blocks = blocks[rope_order(len(blocks), spec.rope_dims)]
    return pack_matrix(quant, blocks).reshape(-1)
