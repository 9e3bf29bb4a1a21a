"""What a model spec means: a file, a hub repository, or a name. Nothing is fetched here.

spec                                  meaning
a file that exists                    that file; of a split model its first shard
hf:owner/repo[:QUANT or file]         a GGUF of a Hugging Face repository; also hf.co/… and huggingface.co/… addresses
owner/repo:QUANT, owner/repo-GGUF     the same, as llama.cpp and Ollama users write it, unless a folder `owner` exists
anything else with a separator,       a path, and an error when it is missing
or ending in .gguf
any other word                        a built-in or pulled name
"""

import difflib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chenxing.errors import ModelNotFoundError, UsageError

SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)
"""How llama.cpp names the files of a split model; groups: number from 1, count."""

_WORD = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_REPO = re.compile(rf"{_WORD}/{_WORD}")
_HUB_PREFIX = re.compile(r"(?:hf:(?://)?|(?:https?://)?(?:www\.)?(?:hf\.co|huggingface\.co)/)", re.IGNORECASE)
_HUB_HABIT = re.compile(rf"({_WORD})/{_WORD}(?::[^:]+|(?<=-gguf))", re.IGNORECASE)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_HUB_PAGE = re.compile(r"/(?:resolve|blob)/[^/]+/")


@dataclass(frozen=True)
class LocalFile:
    """A path that exists; the first shard of a split model. Whether it is a model, who opens it finds out."""

    path: Path


@dataclass(frozen=True)
class HubModel:
    """A GGUF in a Hugging Face repository. `selector` is a quant tag or a file name; None asks for the default."""

    repo: str
    selector: str | None = None

    def __str__(self) -> str:
        return f"hf:{self.repo}:{self.selector}" if self.selector else f"hf:{self.repo}"


@dataclass(frozen=True)
class ModelName:
    """A word that is to be looked up among the built-in and the pulled names."""

    name: str


def parse(spec: str | Path) -> LocalFile | HubModel | ModelName:
    """The meaning of `spec`. A Path object is always a path.

    Raises ModelNotFoundError for a path that is missing, UsageError for a spec that cannot be meant.
    """
    text = str(spec)
    if not text.strip() or "\0" in text:
        raise UsageError("the model name is empty: expected a path, a model name or hf:owner/repo[:QUANT]")
    path = Path(text).expanduser()
    is_path = isinstance(spec, Path) or _looks_like_path(text)
    if path.is_file() or (is_path and path.exists()):
        return LocalFile(first_shard(path))
    if isinstance(spec, Path):
        raise _missing(path)
    text = text.strip()
    if prefix := _HUB_PREFIX.match(text):
        return _hub(text, text[prefix.end() :])
    if _ADDRESS.match(text):
        raise UsageError(f"{text}: only Hugging Face's addresses are fetched: download the file and give its path")
    habit = _HUB_HABIT.fullmatch(text)
    if habit and not Path(habit[1]).is_dir():
        return _hub(text, text)
    if is_path:
        raise _missing(path)
    return ModelName(text)


def first_shard(path: Path) -> Path:
    """`path`, or shard 1 of the same model if `path` is a later shard and the first one lies beside it."""
    first = path.with_name(SHARD.sub(r"-00001-of-\2.gguf", path.name))
    return first if first.is_file() else path


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """At most three of `known` that a person who typed `word` may have meant, best first."""
    by_folded = {name.casefold(): name for name in known}
    return [by_folded[match] for match in difflib.get_close_matches(word.casefold(), by_folded, n=3, cutoff=0.5)]


def _hub(spec: str, rest: str) -> HubModel:
    rest = rest.split("?")[0].rstrip("/")
    if page := _HUB_PAGE.search(rest):  # the address of a file, as a browser shows it
        repo, selector = rest[: page.start()], rest[page.end() :]
    else:
        repo, _, selector = rest.partition(":")
    if not _REPO.fullmatch(repo):
        raise UsageError(f"{spec}: expected hf:owner/repo[:QUANT or file], found {repo!r} as the repository")
    if selector.casefold() == "latest":  # what Ollama writes for "the default one"
        selector = ""
    return HubModel(repo, selector or None)


def _looks_like_path(text: str) -> bool:
    separators = [os.sep, os.altsep or os.sep]
    return any(s in text for s in separators) or text.casefold().endswith(".gguf")


def _missing(path: Path) -> ModelNotFoundError:
    folder = path.parent
    if path.is_symlink():
        hint = f"it is a link to {os.readlink(path)}, which is missing"
    elif not folder.is_dir():
        hint = f"there is no folder {folder}"
    else:
        near = nearest(path.name, (p.name for p in folder.glob("*.gguf") if p.exists()))
        hint = f"did you mean {' or '.join(near)}?" if near else f"no file of a similar name is in {_whole(folder)}"
    text = path.as_posix()
    if _REPO.fullmatch(text) or _HUB_HABIT.fullmatch(text):
        hint += f" (for a Hugging Face repository write hf:{text})"
    return ModelNotFoundError(f"{path}: no such file; {hint}")


def _whole(folder: Path) -> str:
    try:
        return str(folder.absolute())
    except FileNotFoundError:
        return "the current folder, which is gone"
