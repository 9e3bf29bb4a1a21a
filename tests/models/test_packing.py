"""Weight types without a kernel are decoded once and packed as F16; those that nothing decodes are refused."""

from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type

from chenxing.errors import UnsupportedModelError
from chenxing.gguf import open_gguf
from chenxing.models import packing
from chenxing.models.packing import (
    file_blocks,
    is_decoded,
    pack_jobs,
    pack_matrix,
    packed_size,
    packed_type,
    rope_order,
    vector_f32,
)
from chenxing.models.spec import experts, matrix
from chenxing.models.weights import decoding_notices
from chenxing.quants import QUANTS

NAMES = ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0", "MXFP4"]


def write(path: Path, kind: Type, n_rows: int, n: int) -> np.ndarray:
    """A file with one tensor of random blocks. -> its bytes, u8[n_rows, row bytes]"""
    block_size, type_size = gguf.GGML_QUANT_SIZES[kind]
    rng = np.random.default_rng(int(kind))
    data = rng.integers(0, 256, (n_rows, n // block_size * type_size), dtype=np.uint8)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("a.weight", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return data


@pytest.mark.parametrize("name", NAMES)
def test_types_without_a_kernel_are_decoded(tmp_path, name):
    data = write(tmp_path / "m.gguf", Type[name], 4, 512)
    model = open_gguf(tmp_path / "m.gguf")
    assert is_decoded(model.tensors["a.weight"]) and packed_type(model.tensors["a.weight"]).name == "F16"
    with np.errstate(over="ignore", invalid="ignore"):  # random scales leave f16's range
        expected = gguf.quants.dequantize(data, Type[name])
        blocks = file_blocks(model, "a.weight", slice(None))
        assert blocks.shape == (4, 512, 2)
        assert np.array_equal(blocks.reshape(-1), expected.astype(np.float16).view(np.uint8).reshape(-1))
        assert np.array_equal(vector_f32(model, "a.weight"), expected.reshape(-1), equal_nan=True)


def test_a_notice_counts_what_is_decoded(tmp_path):
    write(tmp_path / "m.gguf", Type.IQ3_S, 4, 512)
    model = open_gguf(tmp_path / "m.gguf")
    spec = matrix("a.weight", 4, 512)
    size = "0.0 MB"  # 4 KiB
    assert decoding_notices(model, [spec]) == [
        f"1 tensor of type IQ3_S is decoded to F16 (no kernel of its own): {size}"
    ]
    tied = matrix("b.weight", 4_000_000, 512, fallback="a.weight")
    (notice,) = decoding_notices(model, [spec, tied])
    assert notice == "1 tensor of type IQ3_S is decoded to F16 (no kernel of its own): 4.1 GB"
    write(tmp_path / "n.gguf", Type.Q4_1, 4, 512)
    assert decoding_notices(open_gguf(tmp_path / "n.gguf"), [spec]) == []


@pytest.mark.parametrize("kind", ["matrix", "experts"])
@pytest.mark.parametrize("piece_bytes", [1, 1 << 19])
def test_pieces_make_the_whole(tmp_path, monkeypatch, kind, piece_bytes):
    monkeypatch.setattr(packing, "PIECE_BYTES", piece_bytes)
    write(tmp_path / "m.gguf", Type.Q4_1, 80, 64)
    model, quant = open_gguf(tmp_path / "m.gguf"), QUANTS["Q4_1"]
    spec = matrix("a.weight", 80, 64, rope_dims=(40, 8)) if kind == "matrix" else experts("a.weight", 2, 40, 64)
    pieces = [job() for job in pack_jobs(model, spec, "a.weight")]
    assert len(pieces) == ({"matrix": 5, "experts": 6}[kind] if piece_bytes == 1 else {"matrix": 1, "experts": 2}[kind])
    blocks = file_blocks(model, "a.weight", slice(None))
    parts = [blocks[rope_order(80, (40, 8))]] if kind == "matrix" else [blocks[:40], blocks[40:]]
    expected = np.concatenate([pack_matrix(quant, part).reshape(-1) for part in parts])
    assert np.array_equal(np.concatenate(pieces), expected) and packed_size(model, spec, "a.weight") == len(expected)


def test_a_type_that_nothing_decodes_is_refused(tmp_path):
    write(tmp_path / "m.gguf", Type.Q8_K, 2, 256)
    with pytest.raises(UnsupportedModelError, match=r"tensor 'a.weight': weight type Q8_K cannot be decoded"):
        file_blocks(open_gguf(tmp_path / "m.gguf"), "a.weight", slice(None))
