import struct
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter
from handmade import gguf_file, pair, tensor

from chenxing.errors import ModelFileError
from chenxing.gguf import open_gguf

N_TENSORS = 5


def write_split(folder: Path, name: str = "model") -> list[Path]:
    """Five tensors, two a file, as llama.cpp's tools lay them out; the metadata is in the first file."""
    writer = GGUFWriter(folder / f"{name}.gguf", "llama", split_max_tensors=2)
    writer.add_uint32("llama.block_count", 2)
    for i in range(N_TENSORS):
        writer.add_tensor(f"blk.{i}.weight", np.full((i + 1, 4), i, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return [folder / f"{name}-{i:05d}-of-00003.gguf" for i in (1, 2, 3)]


@pytest.mark.parametrize("asked", [0, 1, 2])
def test_any_file_opens_all(asked, tmp_path):
    paths = write_split(tmp_path)
    model = open_gguf(paths[asked])
    assert model.path == paths[asked]
    assert model.paths == paths
    assert model.require("llama.block_count", int) == 2
    assert list(model.tensors) == [f"blk.{i}.weight" for i in range(N_TENSORS)]
    assert [t.shard for t in model.tensors.values()] == [0, 0, 1, 1, 2]
    theirs = {t.name: t for path in paths for t in GGUFReader(path).tensors}
    for name, ours in model.tensors.items():
        assert (ours.offset, ours.n_bytes) == (theirs[name].data_offset, theirs[name].n_bytes)
        assert np.array_equal(model.data(name), theirs[name].data.view(np.uint8).ravel())


@pytest.mark.parametrize("asked", [0, 2])
def test_missing_files_are_named(asked, tmp_path):
    paths = write_split(tmp_path)
    paths[1].unlink()
    with pytest.raises(ModelFileError) as e:
        open_gguf(paths[asked])
    assert "expected 3 files side by side, found no model-00002-of-00003.gguf. Fetch" in str(e.value)


def test_a_renamed_file_is_told_its_name(tmp_path):
    paths = write_split(tmp_path)
    renamed = paths[1].rename(tmp_path / "part2.gguf")
    with pytest.raises(
        ModelFileError, match=r"expected a name that ends with -00002-of-00003\.gguf, .*found part2\.gguf"
    ):
        open_gguf(renamed)


def write_parts(folder: Path, *parts: bytes) -> Path:
    """The parts under the names of one model; the first one's path."""
    for i, part in enumerate(parts):
        (folder / f"m-{i + 1:05d}-of-{len(parts):05d}.gguf").write_bytes(part)
    return folder / f"m-00001-of-{len(parts):05d}.gguf"


def part(no: int, n: int, n_tensors: int, name: bytes) -> bytes:
    pairs = [
        pair(b"split.no", 2, struct.pack("<H", no)),
        pair(b"split.count", 2, struct.pack("<H", n)),
        pair(b"split.tensors.count", 5, struct.pack("<i", n_tensors)),
    ]
    return gguf_file(pairs, [tensor(name, [8], 0, 0)], bytes(32))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (part(0, 2, 2, b"b"), "m-00002-of-00002.gguf: metadata key 'split.no': expected 1, found 0"),
        (part(1, 3, 2, b"b"), "m-00002-of-00002.gguf: metadata key 'split.count': expected 2, found 3"),
        (gguf_file(), "m-00002-of-00002.gguf: metadata key 'split.no': expected int, found no such key"),
        (part(1, 2, 2, b"a"), "m-00002-of-00002.gguf: tensor 'a': expected one of this name, found another in"),
        (b"", "m-00002-of-00002.gguf: file: expected a GGUF file, found an empty file"),
    ],
)
def test_files_that_do_not_belong_together(second, message, tmp_path):
    with pytest.raises(ModelFileError) as e:
        open_gguf(write_parts(tmp_path, part(0, 2, 2, b"a"), second))
    assert message in str(e.value)


def test_the_number_of_tensors_is_checked(tmp_path):
    path = write_parts(tmp_path, part(0, 2, 3, b"a"), part(1, 2, 3, b"b"))
    with pytest.raises(ModelFileError, match=r"metadata key 'split\.tensors\.count': expected 2, found 3"):
        open_gguf(path)


def test_a_whole_file_may_have_a_parts_name(tmp_path):
    (tmp_path / "m-00002-of-00003.gguf").write_bytes(gguf_file())
    (tmp_path / "m.gguf").write_bytes(part(0, 1, 1, b"a"))
    assert open_gguf(tmp_path / "m-00002-of-00003.gguf").paths == [tmp_path / "m-00002-of-00003.gguf"]
    assert list(open_gguf(tmp_path / "m.gguf").tensors) == ["a"]
