import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from huggingface_hub import constants, hf_hub_download
from standin_hub import StandInRepo
from tiny_models import write_tiny_gguf, write_tiny_shards

from chenxing.errors import DownloadError, ModelFileError, ModelNotFoundError
from chenxing.hub import fetch, list_models, pull, remove, resolve
from chenxing.hub.library import find
from chenxing.hub.names import HubModel


@pytest.fixture
def repo(hub, tmp_path):
    """Three quants of different content, one of them in two shards; about 1 MB each."""
    contents = {
        "README.md": b"about",
        "mmproj-tiny-F16.gguf": b"GGUF not a model",
        **{
            f"tiny-{quant}.gguf": write_tiny_gguf(tmp_path / "made" / f"{quant}.gguf", n_rows=1000, seed=seed)
            for seed, quant in enumerate(("Q8_0", "Q4_K_M", "Q5_0"))
        },
    }
    hub.repos["owner/tiny-GGUF"] = StandInRepo(contents)
    return hub.repos["owner/tiny-GGUF"]


def parts(folder):
    return [path.name for path in folder.rglob("*") if path.name.endswith((".part", ".scratch"))]


def test_the_default_quant_is_downloaded_once(hub, repo, models_folder):
    seen = []
    path = resolve("hf:owner/tiny-GGUF", on_progress=lambda stage, fraction: seen.append((stage, fraction)))
    assert path == models_folder / "hf" / "owner" / "tiny-GGUF" / "tiny-Q4_K_M.gguf"
    assert path.read_bytes() == repo.files["tiny-Q4_K_M.gguf"]
    assert {stage for stage, _ in seen} == {"download"}
    assert [fraction for _, fraction in seen] == sorted(fraction for _, fraction in seen)
    assert (seen[0][1], seen[-1][1]) == (0, 1)
    n_requests = len(hub.requests)
    for spec in ("hf:owner/tiny-GGUF", "owner/tiny-GGUF:q4_k_m", "tiny", "tiny:Q4_K_M", "tiny-q4_k_m"):
        assert resolve(spec) == path
    assert len(hub.requests) == n_requests, "a model that is there costs no network access"


def test_by_quant_and_by_file(repo):
    assert pull("hf:owner/tiny-GGUF:q8_0").name == "owner/tiny-GGUF:Q8_0"
    assert resolve("hf:owner/tiny-GGUF:tiny-Q5_0.gguf").read_bytes() == repo.files["tiny-Q5_0.gguf"]
    assert [model.name for model in list_models()] == ["owner/tiny-GGUF:Q5_0", "owner/tiny-GGUF:Q8_0"]
    with pytest.raises(ModelNotFoundError, match="available: "):
        pull("hf:owner/tiny-GGUF:Q2_K")
    with pytest.raises(ModelNotFoundError, match="fits several models: owner/tiny-GGUF:Q5_0, owner/tiny-GGUF:Q8_0"):
        resolve("tiny")


def test_what_the_manifest_keeps(repo):
    pull("hf:owner/tiny-GGUF:Q8_0")
    (model,) = list_models()
    assert model.source == f"hf:owner/tiny-GGUF@{repo.commit}"
    assert model.licence == "mit"
    assert model.files[0].sha256 == repo.sha256("tiny-Q8_0.gguf")
    assert model.pulled.startswith("20")
    assert model.summary["architecture"] == "llama"
    assert model.summary["quant"] == "Q8_0"


def test_split_models(hub, models_folder, tmp_path):
    shards = write_tiny_shards(tmp_path / "made" / "big-Q8_0.gguf")
    assert len(shards) == 2
    hub.repos["owner/big"] = StandInRepo({f"sub/{name}": content for name, content in shards.items()})
    path = resolve("hf:owner/big")
    assert path == models_folder / "hf" / "owner" / "big" / "sub" / "big-Q8_0-00001-of-00002.gguf"
    assert {file.name: file.read_bytes() for file in path.parent.glob("*.gguf")} == shards
    assert list_models()[0].n_bytes == sum(map(len, shards.values()))
    path.with_name("big-Q8_0-00002-of-00002.gguf").unlink()
    n_contents = len(hub.contents_sent())
    assert resolve("hf:owner/big:q8_0") == path
    assert len(hub.contents_sent()) == n_contents + 1, "only the missing shard is fetched again"
    _, freed = remove("hf:owner/big")
    assert freed == sum(map(len, shards.values()))
    assert not list(models_folder.rglob("*.gguf"))


def test_what_is_no_gguf_is_said_and_can_be_removed(hub, models_folder):
    hub.repos["owner/odd"] = StandInRepo({"odd.gguf": b"<html>"})
    with pytest.raises(ModelFileError):
        pull("hf:owner/odd")
    assert [(model.name, model.is_complete, model.summary) for model in list_models()] == [
        ("owner/odd:odd.gguf", True, None)
    ]
    remove("odd")
    assert list_models() == []


def test_an_interrupted_pull_goes_on_where_it_was(hub, repo, models_folder):
    def interrupt_half_way(stage, fraction):
        if fraction > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull("hf:owner/tiny-GGUF", on_progress=interrupt_half_way)
    (model,) = list_models()
    assert not model.is_complete
    n_bytes_there = model.n_bytes_there
    assert 0.5 * model.n_bytes < n_bytes_there < model.n_bytes
    assert resolve("tiny").read_bytes() == repo.files["tiny-Q4_K_M.gguf"]
    assert hub.contents_sent()[-1].range == f"bytes={n_bytes_there}-"
    assert not parts(models_folder)


def test_an_interrupted_pull_can_be_removed(repo, models_folder):
    with pytest.raises(KeyboardInterrupt):
        pull("hf:owner/tiny-GGUF", on_progress=_interrupt_at_a_third)
    _, freed = remove("hf:owner/tiny-GGUF:Q4_K_M")
    assert freed > len(repo.files["tiny-Q4_K_M.gguf"]) / 4
    assert list_models() == []
    assert not parts(models_folder)
    assert not (models_folder / "hf" / "owner").exists()


def test_a_connection_that_breaks_is_taken_up(hub, repo, monkeypatch):
    hub.cuts = [300_000]
    monkeypatch.setattr("time.sleep", lambda _: None)
    assert resolve("hf:owner/tiny-GGUF").read_bytes() == repo.files["tiny-Q4_K_M.gguf"]
    assert len(hub.contents_sent()) == 2


def test_content_that_is_not_what_the_hub_announced(repo, models_folder):
    right = repo.files["tiny-Q4_K_M.gguf"]
    repo.announced["tiny-Q4_K_M.gguf"] = bytes(len(right))
    with pytest.raises(DownloadError, match=r"expected \d+ bytes with SHA-256 .*found"):
        pull("hf:owner/tiny-GGUF")
    assert list_models() == []
    assert not parts(models_folder)


def test_a_new_version_replaces_the_old_one_when_it_is_complete(hub, repo, models_folder, tmp_path):
    path = resolve("hf:owner/tiny-GGUF")
    old, first_pull = path.read_bytes(), list_models()[0].pulled
    assert pull("hf:owner/tiny-GGUF").pulled == first_pull
    repo.files["tiny-Q4_K_M.gguf"] = new = write_tiny_gguf(tmp_path / "new.gguf", n_rows=900, seed=9)
    with pytest.raises(KeyboardInterrupt):
        pull("hf:owner/tiny-GGUF", on_progress=_interrupt_at_a_third)
    assert resolve("hf:owner/tiny-GGUF").read_bytes() == old, "half an update leaves the old version usable"
    repo.files["tiny-Q4_K_M.gguf"] = newest = write_tiny_gguf(tmp_path / "newest.gguf", n_rows=900, seed=10)
    assert len(new) == len(newest)
    pull("hf:owner/tiny-GGUF")
    assert path.read_bytes() == newest, "the part of another version is not gone on with"
    assert not parts(models_folder)
    repo.files["renamed-Q4_K_M.gguf"] = repo.files.pop("tiny-Q4_K_M.gguf")
    assert pull("hf:owner/tiny-GGUF").path.name == "renamed-Q4_K_M.gguf"
    assert not path.exists()


def test_a_part_that_no_checksum_names_is_not_gone_on_with(repo, tmp_path):
    repo.has_checksums = False
    with pytest.raises(KeyboardInterrupt):
        pull("hf:owner/tiny-GGUF", on_progress=_interrupt_at_a_third)
    repo.files["tiny-Q4_K_M.gguf"] = newer = write_tiny_gguf(tmp_path / "newer.gguf", n_rows=1000, seed=9)
    assert resolve("hf:owner/tiny-GGUF").read_bytes() == newer
    assert list_models()[0].files[0].sha256 == repo.sha256("tiny-Q4_K_M.gguf")


def test_a_damaged_file_is_found_and_fetched_again(hub, repo):
    path = resolve("hf:owner/tiny-GGUF")
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    stages = []
    pull("hf:owner/tiny-GGUF", on_progress=lambda stage, _: stages.append(stage))
    assert path.read_bytes() == content
    assert stages[0] == "verify"
    path.write_bytes(content[:1000])  # a wrong size is seen without reading
    assert resolve("hf:owner/tiny-GGUF").read_bytes() == content


def test_gated_repositories_name_the_token(hub, repo, monkeypatch):
    repo.is_gated = True
    with pytest.raises(DownloadError, match=rf"gated: accept its terms at {hub.url}/owner/tiny-GGUF and set HF_TOKEN"):
        pull("hf:owner/tiny-GGUF")
    assert list_models() == []


def test_the_token_goes_to_the_hub_and_not_to_the_host_of_the_contents(hub, repo, monkeypatch):
    repo.token = "hf_secret"
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    pull("hf:owner/tiny-GGUF")
    assert {request.authorization for request in hub.requests if "/cdn/" not in request.path} == {"Bearer hf_secret"}
    assert [request.authorization for request in hub.contents_sent()] == [None]


def test_files_of_the_hugging_face_cache_are_used_where_they_are(hub, repo, models_folder):
    cached = Path(hf_hub_download("owner/tiny-GGUF", "tiny-Q8_0.gguf"))
    n_contents = len(hub.contents_sent())
    assert resolve("hf:owner/tiny-GGUF:Q8_0") == cached
    assert len(hub.contents_sent()) == n_contents
    assert not list(models_folder.rglob("*.gguf")), "one copy on disk"
    _, freed = remove("hf:owner/tiny-GGUF:Q8_0")
    assert (freed, cached.is_file()) == (0, True)
    assert list_models() == []


def test_a_damaged_file_of_the_cache_is_not_used(repo, models_folder):
    cached = Path(hf_hub_download("owner/tiny-GGUF", "tiny-Q8_0.gguf")).resolve()
    cached.write_bytes(bytes(cached.stat().st_size))
    path = resolve("hf:owner/tiny-GGUF:Q8_0")
    assert models_folder in path.parents
    assert path.read_bytes() == repo.files["tiny-Q8_0.gguf"]


def test_offline(hub, repo, monkeypatch):
    pulled = resolve("hf:owner/tiny-GGUF:Q5_0")
    cached = hf_hub_download("owner/tiny-GGUF", "tiny-Q8_0.gguf")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    n_requests = len(hub.requests)
    assert resolve("hf:owner/tiny-GGUF:Q5_0") == pulled
    assert str(resolve("hf:owner/tiny-GGUF:Q8_0")) == cached
    with pytest.raises(ModelNotFoundError, match="available: Q8_0"):
        resolve("hf:owner/tiny-GGUF:Q4_K_M")
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE forbids"):
        resolve("hf:owner/other-GGUF")
    assert len(hub.requests) == n_requests


def test_two_pulls_at_once_download_once(hub, repo):
    paths = []
    threads = [threading.Thread(target=lambda: paths.append(resolve("hf:owner/tiny-GGUF"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths) == 3
    assert len(set(paths)) == 1
    assert len(hub.contents_sent()) == 1


def test_no_room_is_said_before_anything_is_written(repo, models_folder, monkeypatch):
    monkeypatch.setattr("chenxing.hub.disk.free_bytes", lambda folder: 12_345)
    with pytest.raises(DownloadError, match=r"too full: 1\.0\d MB needed, 12\.3 kB free"):
        pull("hf:owner/tiny-GGUF")
    assert list_models() == []
    assert not list(models_folder.rglob("*.gguf*"))


def test_a_disk_that_gets_full_keeps_the_part(repo, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    with pytest.raises(KeyboardInterrupt):
        pull("hf:owner/tiny-GGUF", on_progress=_interrupt_at_a_third)
    monkeypatch.setattr(fetch, "fetch", full)
    with pytest.raises(DownloadError, match=r"too full: 1\.0\d MB needed, .* free. Free some space"):
        pull("hf:owner/tiny-GGUF")
    assert find(HubModel("owner/tiny-GGUF", "Q4_K_M")).n_bytes_there > 0


def test_a_models_folder_that_cannot_be_made(repo, models_folder):
    models_folder.parent.write_bytes(b"a file in its place")
    with pytest.raises(DownloadError, match=r"cannot write the models folder .*CHENXING_HOME"):
        pull("hf:owner/tiny-GGUF")


def test_the_environment_of_the_library_is_honoured(hub, repo, tmp_path):
    """In a new process, as a user would set it: address, token, home and offline mode."""
    repo.token = "hf_secret"
    code = "import sys, json; from chenxing import hub; print(json.dumps(str(hub.resolve(sys.argv[1]))))"

    def run(spec, **variables):
        kept = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        env = kept | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf-home")} | variables
        return subprocess.run(
            [sys.executable, "-c", code, spec],
            env=env | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=120,
        )

    assert "HF_HUB_OFFLINE" in run("hf:owner/tiny-GGUF", HF_HUB_OFFLINE="1").stderr
    assert not hub.requests
    assert "HF_TOKEN" in run("hf:owner/tiny-GGUF").stderr
    done = run("hf:owner/tiny-GGUF", HF_TOKEN="hf_secret")
    assert done.returncode == 0, done.stderr
    assert Path(json.loads(done.stdout)).read_bytes() == repo.files["tiny-Q4_K_M.gguf"]
    assert json.loads(run("hf:owner/tiny-GGUF", HF_HUB_OFFLINE="1").stdout) == json.loads(done.stdout)


def _interrupt_at_a_third(stage, fraction):
    if stage == "download" and fraction > 0.33:
        raise KeyboardInterrupt
