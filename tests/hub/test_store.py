import json
import threading

import pytest

from chenxing.hub import store
from chenxing.hub.store import ModelFile, PulledModel


@pytest.fixture
def model(models_folder):
    folder = models_folder / "hf" / "owner" / "repo"
    files = (ModelFile(folder / "sub" / "a-1.gguf", 3, "ab" * 32), ModelFile(folder / "sub" / "a-2.gguf", 4, None))
    return PulledModel("owner/repo:Q4_0", "hf:owner/repo@abc", files, folder / "Q4_0.json", "mit")


def put(model):
    for file in model.files:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        file.path.write_bytes(bytes(file.size))


def test_a_manifest_round_trips(model, tmp_path):
    borrowed = ModelFile(tmp_path / "hub-cache" / "b.gguf", 5, "cd" * 32, is_borrowed=True)
    for files in (model.files, (borrowed,)):
        written = PulledModel(model.name, model.source, files, model.manifest, "mit", "2026-01-01", {"quant": "Q4_0"})
        store.write_manifest(written)
        assert store.read_manifest(model.manifest) == written
        assert store.read_manifest(model.manifest).summary == {"quant": "Q4_0"}
        assert store.pulled_models() == [written]
    assert [path.name for path in model.manifest.parent.iterdir()] == ["Q4_0.json"]


def test_a_moved_models_folder_still_fits(model, models_folder, monkeypatch):
    put(model)
    store.write_manifest(model)
    moved = models_folder.rename(models_folder.parent / "moved")
    monkeypatch.setattr(store, "models_folder", lambda: moved)
    assert store.pulled_models()[0].is_complete


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"format": 1}', '{"format": 2, "files": []}', b"\xff\xfe"])
def test_a_damaged_manifest_counts_as_absent(model, damage):
    store.write_manifest(model)
    model.manifest.write_bytes(damage if isinstance(damage, bytes) else damage.encode())
    assert store.read_manifest(model.manifest) is None
    assert store.pulled_models() == []


def test_every_missing_key_counts_as_damage(model):
    store.write_manifest(model)
    data = json.loads(model.manifest.read_text())
    for key in data:
        model.manifest.write_text(json.dumps({k: v for k, v in data.items() if k != key}))
        assert store.read_manifest(model.manifest) is None, key


def test_complete_means_that_every_file_has_its_size(model):
    assert (model.is_complete, model.n_bytes, model.n_bytes_there) == (False, 7, 0)
    put(model)
    assert (model.is_complete, model.n_bytes_there) == (True, 7)
    model.files[1].path.write_bytes(b"x")
    assert (model.is_complete, model.n_bytes_there) == (False, 3)
    model.files[1].part.write_bytes(b"xx")
    assert (model.is_complete, model.n_bytes_there) == (False, 5)


def test_delete_frees_everything_of_the_model_and_nothing_else(model, models_folder):
    put(model)
    store.write_manifest(model)
    model.files[0].path.with_name("a-1.gguf.0123.part").write_bytes(b"12345")
    model.files[0].scratch.mkdir()
    other = models_folder / "hf" / "owner" / "other" / "b.gguf"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"x")
    assert store.delete(model) == 12
    assert [path for path in models_folder.rglob("*") if path.is_file()] == [other]
    assert not model.manifest.parent.exists()
    assert store.delete(model) == 0


def test_delete_leaves_borrowed_files(model, tmp_path):
    file = tmp_path / "hub-cache" / "b.gguf"
    file.parent.mkdir()
    file.write_bytes(b"x")
    borrowed = PulledModel("n", "s", (ModelFile(file, 1, None, is_borrowed=True),), model.manifest)
    store.write_manifest(borrowed)
    assert store.delete(borrowed) == 0
    assert file.exists()
    assert not model.manifest.exists()


def test_finish_keeps_the_date_of_the_same_content(model):
    put(model)
    store.write_manifest(model)
    first = store.finish(model, ["ab" * 32, "cd" * 32])
    assert first.pulled
    older = PulledModel(model.name, model.source, first.files, model.manifest, "mit", "2020-01-01T00:00:00+00:00")
    store.write_manifest(older)
    assert store.finish(model, ["ab" * 32, "cd" * 32]).pulled == older.pulled
    assert store.finish(model, ["ab" * 32, "ef" * 32]).pulled > older.pulled
    assert store.read_manifest(model.manifest).files[1].sha256 == "ef" * 32


def test_the_lock_lets_one_in_at_a_time(model, caplog):
    inside, order = threading.Event(), []

    def second():
        inside.wait()
        with store.locked(model.manifest):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with store.locked(model.manifest):
        inside.set()
        thread.join(0.3)  # the second one is waiting now
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert "waiting" in caplog.text
