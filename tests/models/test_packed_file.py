"""The packed-weights file: the same bytes as packing gives, and whatever is wrong with it is seen."""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from packed_models import SPECS, write_model

from chenxing.gguf import open_gguf
from chenxing.models import packed_file
from chenxing.models.packed_file import map_packed, model_key, read_index, write_packed
from chenxing.models.packed_stream import TAIL
from chenxing.models.packing import pack_matrix, rope_order
from chenxing.quants import QUANTS


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, str]:
    """A packed file and its key."""
    model = open_gguf(write_model(tmp_path / "m.gguf"))
    path = tmp_path / "m.pack"
    write_packed(path, model_key(model, SPECS), model, SPECS, lambda stage, fraction: None)
    return path, model_key(model, SPECS)


def test_mapped_is_what_was_packed(written, tmp_path):
    path, key = written
    body, places, _ = map_packed(path, key)
    model = open_gguf(tmp_path / "m.gguf")
    offset, n_bytes = places["b.weight"]
    assert np.array_equal(body[offset : offset + n_bytes].view(np.float32), model.data("b.weight").view(np.float32))
    q8_0 = QUANTS["Q8_0"]
    blocks = model.data("a.weight").reshape(40, 2, q8_0.type.type_size)
    offset, n_bytes = places["a.weight"]
    assert np.array_equal(body[offset : offset + n_bytes], pack_matrix(q8_0, blocks).reshape(-1))
    assert all((body.ctypes.data + offset) % 64 == 0 for offset, _ in places.values())
    last, n_bytes = max(places.values())
    assert len(body) >= last + n_bytes + TAIL and not body[last + n_bytes :].any()


def test_it_says_what_it_was_made_from(written, tmp_path):
    path, key = written
    index = read_index(path)
    assert (index.key, index.model) == (key, str(tmp_path / "m.gguf"))
    assert index.tensors.keys() == {spec.name for spec in SPECS}


def test_damage_is_seen_wherever_it_is(written):
    path, key = written
    whole = path.read_bytes()
    index = read_index(path)
    path.chmod(0o600)
    places = [
        0,
        9,
        17,
        40,
        300,
        *(index.start + offset + i for offset, n, _ in index.tensors.values() for i in (0, n - 1)),
    ]
    for at in places:
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        assert map_packed(path, key) is None, at
    for n in (0, 10, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:n])
        assert map_packed(path, key) is None, n
    path.write_bytes(whole + b"x")
    assert map_packed(path, key) is None
    path.write_bytes(whole)
    assert map_packed(path, key) is not None and map_packed(path, "another key") is None


@pytest.mark.parametrize("n_threads", [1, 3])
def test_damage_is_seen_by_any_thread(written, monkeypatch, n_threads):
    monkeypatch.setattr(packed_file, "cores", lambda: type("C", (), {"n_threads": n_threads}))
    path, key = written
    assert map_packed(path, key) is not None
    offset = read_index(path).tensors["c.weight"][0] + read_index(path).start
    path.chmod(0o600)
    with path.open("r+b") as f:
        f.seek(offset)
        f.write(b"damaged")
    assert map_packed(path, key) is None


def test_another_content_or_time_is_another_key(tmp_path):
    path = write_model(tmp_path / "m.gguf")
    key = model_key(open_gguf(path), SPECS)
    assert model_key(open_gguf(path), SPECS) == key != model_key(open_gguf(path), SPECS[:2])
    os.utime(path, ns=(0, 0))
    touched = model_key(open_gguf(path), SPECS)
    write_model(path, seed=1)
    os.utime(path, ns=(0, 0))
    assert len({key, touched, model_key(open_gguf(path), SPECS)}) == 3


def test_what_fails_while_it_writes_leaves_nothing(tmp_path, monkeypatch):
    model = open_gguf(write_model(tmp_path / "m.gguf"))

    def fail(model, specs):
        yield "a.weight", np.zeros(10, np.uint8)
        raise OSError("disk full")

    monkeypatch.setattr(packed_file, "packed_pieces", fail)
    with pytest.raises(OSError, match="disk full"):
        write_packed(tmp_path / "x.pack", "key", model, SPECS, lambda stage, fraction: None)
    assert [p.name for p in tmp_path.iterdir()] == ["m.gguf"]


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


def test_writes_are_whole_huge_pages():
    """Each of the file's writes ends where a huge page does, but for the last, whatever the pieces are."""
    ends = []

    class File(io.RawIOBase):
        def writable(self):
            return True

        def write(self, data):
            ends.append((ends[-1] if ends else 0) + len(data))
            return len(data)

        def tell(self):
            return ends[-1] if ends else 0

    sizes = [64, 1000, 3 * packed_file.HUGE_PAGE, packed_file.HUGE_PAGE - 1064, 5, 7]
    with io.BufferedWriter(File(), packed_file.HUGE_PAGE) as f:
        for size in sizes:
            packed_file._write_aligned(f, memoryview(bytes(size)))
    assert ends == [packed_file.HUGE_PAGE * i for i in range(1, 5)] + [sum(sizes)]
