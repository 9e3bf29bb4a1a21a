"""The packed-weights file: made once, mapped ever after, and never trusted over the model."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter, quants

from chenxing import config
from chenxing.gguf import open_gguf
from chenxing.models import packed_file
from chenxing.models.packed_file import open_packed
from chenxing.models.packing import pack_matrix, rope_order
from chenxing.models.spec import matrix, vector
from chenxing.quants import QUANTS

SPECS = [matrix("a.weight", 40, 64), vector("b.weight", 64), matrix("c.weight", 32, 64, rope_dims=(16, 8))]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CHENXING_HOME", str(tmp_path / "home"))
    config.settings.cache_clear()
    yield tmp_path / "home"
    config.settings.cache_clear()


def write_model(path: Path, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    writer = GGUFWriter(path, "llama")
    for name, rows in (("a.weight", 40), ("c.weight", 32)):
        w = quants.quantize(rng.standard_normal((rows, 64)).astype(np.float32), GGMLQuantizationType.Q8_0)
        writer.add_tensor(name, w, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.add_tensor("b.weight", rng.standard_normal(64).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def contents(packed) -> dict[str, bytes]:
    return {spec.name: packed.array(spec.name).tobytes() for spec in SPECS}


def test_mapped_equals_packed_and_is_found_again(home, tmp_path, monkeypatch):
    model = open_gguf(write_model(tmp_path / "m.gguf"))
    seen = []
    first = contents(open_packed(model, SPECS, lambda stage, fraction: seen.append(fraction)))
    assert seen[-1] == 1.0 and len(list(home.rglob("*.pack"))) == 1
    monkeypatch.setattr(packed_file, "pack_tensor", None)
    again = open_packed(model, SPECS)
    assert contents(again) == first
    assert all(again.array(s.name).ctypes.data % 64 == 0 for s in SPECS)
    assert np.array_equal(again.array("b.weight").view(np.float32), model.data("b.weight").view(np.float32))


def test_a_damaged_file_is_packed_anew(home, tmp_path):
    model = open_gguf(write_model(tmp_path / "m.gguf"))
    good = contents(open_packed(model, SPECS))
    (path,) = home.rglob("*.pack")
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    end_of_tensors = len(whole) - packed_file.TAIL
    places = [0, 9, 17, 40, *rng.integers(0, end_of_tensors, 30).tolist()]
    for at in places:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        assert contents(open_packed(model, SPECS)) == good, at
    for n in (0, 10, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:n])
        assert contents(open_packed(model, SPECS)) == good, n


def test_another_model_of_the_same_name_is_not_taken_for_it(home, tmp_path):
    path = write_model(tmp_path / "m.gguf")
    first = contents(open_packed(open_gguf(path), SPECS))
    path.unlink()
    write_model(path, seed=1)
    assert contents(open_packed(open_gguf(path), SPECS)) != first


def test_without_a_cache_it_is_packed_in_memory(home, tmp_path):
    model = open_gguf(write_model(tmp_path / "m.gguf"))
    expected = contents(open_packed(model, SPECS))
    shutil.rmtree(home)
    home.write_text("a file where the folder should be")
    packed = open_packed(model, SPECS)
    assert contents(packed) == expected
    assert all(packed.array(s.name).ctypes.data % 64 == 0 for s in SPECS)


def test_rows_of_rotated_pairs_move_apart():
    order = rope_order(32, (16, 8))
    assert order[:16].tolist() == [0, 2, 4, 6, 1, 3, 5, 7, *range(8, 16)]
    assert order[16:].tolist() == [16 + i for i in order[:16]]


def test_the_last_tile_is_filled_with_zeros():
    q = QUANTS["Q8_0"]
    blocks = np.random.default_rng(0).integers(1, 255, (20, 2, q.type.type_size), dtype=np.uint8)
    tiles = pack_matrix(q, blocks)
    assert tiles.shape == (2, 2, q.packed_bytes)
    rows = tiles[1].reshape(2, -1)
    assert not rows[:, 32:].reshape(2, 8, 16, 4)[:, :, 4:].any()  # quants of rows 20..31
