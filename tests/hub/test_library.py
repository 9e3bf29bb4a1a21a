from pathlib import Path

import pytest
from tiny_models import write_tiny_gguf

from chenxing.errors import ModelNotFoundError
from chenxing.hub import describe, list_models, pull, remove, resolve, store
from chenxing.hub.store import ModelFile, PulledModel


@pytest.fixture
def pulled(models_folder):
    """Puts a model of that name into the models folder, without any source."""

    def put(name, content=b"GGUF"):
        file = ModelFile(models_folder / f"{name.replace('/', '-').replace(':', '-')}.gguf", len(content), None)
        file.path.parent.mkdir(parents=True, exist_ok=True)
        file.path.write_bytes(content)
        model = PulledModel(name, "somewhere", (file,), file.path.with_suffix(".json"))
        store.write_manifest(model)
        return model

    return put


def test_paths_need_no_models_folder(models_folder, tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    assert resolve("m.gguf") == Path("m.gguf")
    assert resolve(tmp_path / "m.gguf") == tmp_path / "m.gguf"
    assert not models_folder.exists()


def test_names_are_found_whatever_their_case(pulled):
    model = pulled("smollm2")
    assert resolve("smollm2") == resolve("SmolLM2") == model.path
    assert list_models() == [model]


def test_a_file_in_the_working_folder_wins(pulled, tmp_path):
    pulled("smollm2")
    (tmp_path / "smollm2").write_bytes(b"GGUF")
    assert resolve("smollm2") == Path("smollm2")
    (tmp_path / "smollm2").unlink()
    (tmp_path / "smollm2").mkdir()
    assert resolve("smollm2") != Path("smollm2"), "a folder does not"
    (tmp_path / "some-folder").mkdir()
    assert resolve("some-folder") == Path("some-folder")


def test_shortened_names(pulled):
    q4, q8 = pulled("owner/Llama-1B-GGUF:Q4_0"), pulled("owner/Llama-1B-GGUF:Q8_0")
    for spec in ("llama-1b:q4_0", "Llama-1B-GGUF:Q4_0", "owner/llama-1b-gguf:q4_0", "hf:owner/Llama-1B-GGUF:Q4_0"):
        assert resolve(spec) == q4.path
    with pytest.raises(ModelNotFoundError, match="fits several models: owner/Llama-1B-GGUF:Q4_0, owner/Llama-1B"):
        resolve("llama-1b")
    remove("llama-1b:q4_0")
    assert resolve("llama-1b") == resolve("hf:owner/Llama-1B-GGUF") == q8.path


def test_without_a_tag_the_default_quant_of_a_repository_is_meant(pulled):
    pulled("owner/a-GGUF:Q8_0")
    default = pulled("owner/a-GGUF:Q4_K_M")
    assert resolve("hf:owner/a-GGUF") == default.path


def test_a_built_in_name_is_not_a_short_name_of_something_else(pulled, monkeypatch):
    pulled("owner/smollm2-GGUF:Q4_0")
    monkeypatch.setattr("chenxing.hub.fetch.pull_builtin", lambda builtin, on_progress: _Pulled(builtin.name))
    assert resolve("smollm2") == Path("smollm2")


def test_unknown_names_suggest_near_ones(pulled):
    pulled("owner/Llama-1B-GGUF:Q4_0")
    with pytest.raises(ModelNotFoundError, match=r"smolm2: no file and no model of this name; did you mean smollm2\?"):
        resolve("smolm2")
    with pytest.raises(ModelNotFoundError, match=r"known names: smollm2, gemma3-270m, owner/Llama-1B-GGUF:Q4_0"):
        pull("qqqq")


def test_remove_of_what_is_not_pulled(pulled, tmp_path):
    with pytest.raises(ModelNotFoundError, match="no models are pulled yet"):
        remove("anything")
    with pytest.raises(ModelNotFoundError, match="chenxing pull smollm2"):
        remove("smollm2")
    pulled("owner/Llama-1B-GGUF:Q4_0")
    with pytest.raises(ModelNotFoundError, match="pulled models: owner/Llama-1B-GGUF:Q4_0"):
        remove("zzz")
    with pytest.raises(ModelNotFoundError, match=r"did you mean owner/Llama-1B-GGUF:Q4_0\?"):
        remove("Llama-1B-GGUF:Q5_0")
    with pytest.raises(ModelNotFoundError, match="hf:owner/Llama-1B-GGUF:Q8_0: is not pulled"):
        remove("hf:owner/Llama-1B-GGUF:Q8_0")
    (tmp_path / "mine.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelNotFoundError, match="a file of yours"):
        remove("mine.gguf")
    assert (tmp_path / "mine.gguf").exists()


def test_pull_of_a_file(tmp_path, models_folder):
    (tmp_path / "mine.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelNotFoundError, match="nothing to pull"):
        pull("mine.gguf")


def test_describe_pulls_nothing(pulled, tmp_path):
    content = write_tiny_gguf(tmp_path / "made.gguf")
    model = pulled("tiny", content)
    assert describe("tiny") == describe(model.path)
    assert describe(str(tmp_path / "made.gguf")).architecture == "llama"
    for spec in ("gemma3-270m", "hf:owner/repo"):
        with pytest.raises(ModelNotFoundError, match=f"{spec}: is not pulled; to get it: chenxing pull {spec}"):
            describe(spec)


class _Pulled:
    def __init__(self, name):
        self.path = Path(name)
