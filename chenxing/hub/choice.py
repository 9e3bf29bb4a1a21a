"""Which GGUF of a repository is meant: by quant tag, by file name, or by default.

Rules as llama.cpp's `-hf` has them: a tag is matched without regard to case, the default is Q4_K_M, then Q8_0; files
that accompany a model (mmproj, imatrix, draft heads) are never chosen by tag. Unlike it, a choice that would be a guess
is an error that lists what there is.

Source  llama.cpp common/download.cpp (find_best_model, gguf_filename_is_model), read for the rules.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chenxing.errors import DownloadError, ModelNotFoundError
from chenxing.hub.names import SHARD, nearest

DEFAULT_QUANTS = ("Q4_K_M", "Q8_0")

_QUANT = re.compile(
    r"(?<![A-Za-z0-9])(?:UD-)?(?:I?Q\d+(?:_[A-Z0-9]+)*|TQ\d_\d|MXFP4(?:_[A-Z0-9]+)*|NVFP4|BF16|FP?16|FP?32)(?![A-Za-z0-9_])",
    re.IGNORECASE,
)
_COMPANIONS = ("mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-")


@dataclass(frozen=True)
class RepoFile:
    """One file of a repository. `path` is relative with forward slashes; sha256 is None where the hub has none."""

    path: str
    size: int
    sha256: str | None = None


@dataclass(frozen=True)
class Candidate:
    """One model of a repository: its files in shard order, and the tag or file name that selects it and no other."""

    label: str
    files: tuple[RepoFile, ...]

    @property
    def n_bytes(self) -> int:
        return sum(file.size for file in self.files)


def quant_tag(path: str) -> str | None:
    """The quant that a file name (or the folder it is in) announces, in upper case; of several the last one."""
    tags = _QUANT.findall(SHARD.sub(".gguf", path))
    return tags[-1].upper() if tags else None


def tag_matches(tag: str, path: str) -> bool:
    """Whether `tag` is a whole word of the file's path: Q4_K is not in Q4_K_M, and Q4_K_XL is in UD-Q4_K_XL."""
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(tag)}(?![A-Za-z0-9_])", path, re.IGNORECASE) is not None


def candidates(repo: str, files: Iterable[RepoFile]) -> list[Candidate]:
    """The models among `files`, shards joined. Raises DownloadError if a split model lacks a shard."""
    groups: dict[str, list[RepoFile]] = {}
    for file in sorted(files, key=lambda file: file.path):
        name = file.path.rsplit("/", 1)[-1].casefold()
        if name.endswith(".gguf") and not _is_companion(name):
            groups.setdefault(SHARD.sub(r"-of-\2.gguf", file.path), []).append(file)
    names = [
        (quant_tag(group[0].path), group[0].path.rsplit("/", 1)[-1], group[0].path) for group in groups.values()
    ]  # from short to long
    found = []
    for group, own in zip(groups.values(), names, strict=True):
        _require_all_shards(repo, group)
        label = next(name for i, name in enumerate(own) if name and [n[i] for n in names].count(name) == 1)
        found.append(Candidate(label, tuple(group)))
    return found


def choose(repo: str, files: Sequence[RepoFile], selector: str | None) -> Candidate:
    """The model that `selector` (quant tag or file name, None for the default) means.

    Raises ModelNotFoundError, listing what the repository holds, if there is none or more than one.
    """
    models = candidates(repo, files)
    if selector and selector.casefold().endswith(".gguf"):
        return _by_file(repo, files, models, selector)
    if not models:
        raise ModelNotFoundError(
            f"hf:{repo}: the repository holds no GGUF model: look for one whose name ends in -GGUF"
        )
    if selector:
        return _by_tag(repo, models, selector)
    for tag in DEFAULT_QUANTS:
        if matches := [model for model in models if tag_matches(tag, model.files[0].path)]:
            return _by_tag(repo, matches, tag)
    if len(models) > 1:
        raise ModelNotFoundError(
            f"hf:{repo}: holds neither {' nor '.join(DEFAULT_QUANTS)}, so say which one: {_labels(models)}"
        )
    return models[0]


def _by_tag(repo: str, models: Sequence[Candidate], tag: str) -> Candidate:
    matches = [model for model in models if tag_matches(tag, model.files[0].path)]
    exact = [model for model in matches if quant_tag(model.files[0].path) == tag.upper()]
    matches = exact or matches
    if not matches:
        near = nearest(tag, (model.label for model in models))
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ModelNotFoundError(f"hf:{repo}: no GGUF with the quant {tag}; {hint}available: {_labels(models)}")
    if len(matches) > 1:
        raise ModelNotFoundError(
            f"hf:{repo}: {len(matches)} models fit {tag}, name one of the files: {_labels(matches)}"
        )
    return matches[0]


def _by_file(repo: str, files: Sequence[RepoFile], models: Sequence[Candidate], name: str) -> Candidate:
    """By path or by file name; a file that is left out of the candidates (an mmproj) can be had this way too."""
    wanted = name.casefold()
    paths = [file for file in files if wanted in (file.path.casefold(), file.path.casefold().rsplit("/", 1)[-1])]
    if not paths:
        hint = f"available: {_labels(models, as_files=True)}" if models else "it holds no GGUF model"
        raise ModelNotFoundError(f"hf:{repo}: no file {name}; {hint}")
    if len(paths) > 1:
        raise ModelNotFoundError(f"hf:{repo}: {len(paths)} files are called {name}: give one's path in the repository")
    for model in models:
        if paths[0] in model.files:
            return model
    return Candidate(paths[0].path.rsplit("/", 1)[-1], (paths[0],))


def _labels(models: Sequence[Candidate], as_files: bool = False) -> str:
    return ", ".join(model.files[0].path if as_files else model.label for model in models)


def _is_companion(name: str) -> bool:
    return any(word in name for word in _COMPANIONS)


def _require_all_shards(repo: str, group: Sequence[RepoFile]) -> None:
    numbers = [SHARD.search(file.path) for file in group]
    count = int(numbers[0][2]) if numbers[0] else 1
    present = {int(number[1]) if number else 1 for number in numbers}
    if present != set(range(1, count + 1)):
        missing = sorted(set(range(1, count + 1)) - present)
        raise DownloadError(
            f"hf:{repo}: {group[0].path} is one of {count} shards, missing in the repository: {missing}"
        )
