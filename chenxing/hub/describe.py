"""What a GGUF file says about itself: the facts that `chenxing show` and `chenxing list` print."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chenxing.gguf import GGUF, open_gguf
from chenxing.quants.base import GGML_TYPES

_TEMPLATE_MARKS = (
    ("chatml", "<|im_start|>"),
    ("llama3", "<|start_header_id|>"),
    ("llama4", "<|header_start|>"),
    ("gemma", "<start_of_turn>"),
    ("harmony", "<|channel|>"),
    ("granite", "<|start_of_role|>"),
    ("command-r", "<|START_OF_TURN_TOKEN|>"),
    ("deepseek", "<｜User｜>"),
    ("mistral", "[INST]"),
    ("phi", "<|end|>"),
    ("zephyr", "<|user|>"),
)
"""Families of chat formats by a token that every template of the family writes; the first that fits counts."""


@dataclass(frozen=True)
class TypeShare:
    """What one tensor type has of a model: tensors, weights, bytes."""

    type: str
    n_tensors: int
    n_params: int
    n_bytes: int


@dataclass(frozen=True)
class ModelDescription:
    """Facts of a GGUF file, None where it does not state them.

    quant     the file's own label (general.file_type), or the type with most bytes
    types     its quant mix, most bytes first
    n_bytes   of all files on disk
    templates names of the chat templates, the default one as "default"; empty for a base model
    sampling  general.sampling.* metadata (bool, int, float, str) by the name of the parameter
    """

    paths: tuple[Path, ...]
    title: str | None
    architecture: str
    n_params: int
    n_bytes: int
    quant: str
    types: tuple[TypeShare, ...]
    n_ctx_train: int | None
    n_embd: int | None
    n_layer: int | None
    n_head: int | tuple[int, ...] | None
    n_head_kv: int | tuple[int, ...] | None
    n_vocab: int | None
    tokenizer: str | None
    licence: str | None
    templates: tuple[str, ...]
    template_family: str | None
    sampling: dict[str, Any]


def describe_file(path: Path) -> ModelDescription:
    """Reads the metadata and the tensor list, not the weights. Raises ModelFileError if it is no sound GGUF file."""
    gguf = open_gguf(path)
    architecture = gguf.architecture
    types = _type_shares(gguf)
    templates = _templates(gguf)
    return ModelDescription(
        paths=tuple(gguf.paths),
        title=gguf.get("general.name", str),
        architecture=architecture,
        n_params=sum(share.n_params for share in types),
        n_bytes=sum(file.stat().st_size for file in gguf.paths),
        quant=_file_type(gguf) or (types[0].type if types else "none"),
        types=types,
        n_ctx_train=gguf.get(f"{architecture}.context_length", int),
        n_embd=gguf.get(f"{architecture}.embedding_length", int),
        n_layer=gguf.get(f"{architecture}.block_count", int),
        n_head=_per_layer(gguf, f"{architecture}.attention.head_count"),
        n_head_kv=_per_layer(gguf, f"{architecture}.attention.head_count_kv"),
        n_vocab=_n_vocab(gguf, architecture),
        tokenizer=_tokenizer(gguf),
        licence=gguf.get("general.license.name", str) or gguf.get("general.license", str),
        templates=tuple(templates),
        template_family=_family(templates.get("default") or next(iter(templates.values()), "")),
        sampling=_sampling(gguf),
    )


def _type_shares(gguf: GGUF) -> tuple[TypeShare, ...]:
    counts: dict[int, list[int]] = {}
    for tensor in gguf.tensors.values():
        entry = counts.setdefault(tensor.ggml_type, [0, 0, 0])
        for i, more in enumerate((1, math.prod(tensor.shape), tensor.n_bytes)):
            entry[i] += more
    shares = [TypeShare(GGML_TYPES[ggml_type].name, *entry) for ggml_type, entry in counts.items()]
    return tuple(sorted(shares, key=lambda share: -share.n_bytes))


def _file_type(gguf: GGUF) -> str | None:
    value = gguf.get("general.file_type", int)
    if value is None:
        return None
    from gguf import LlamaFileType

    known = {member.value: member.name for member in LlamaFileType}
    return re.sub(r"^(MOSTLY|ALL)_", "", known[value]) if value in known else None


def _per_layer(gguf: GGUF, key: str) -> int | tuple[int, ...] | None:
    """A count that is one for all layers, or an array with one for each."""
    if isinstance(gguf.metadata.get(key), np.ndarray):
        values = tuple(gguf.require(key, np.ndarray).tolist())
        return values[0] if len(set(values)) == 1 else values
    return gguf.get(key, int)


def _n_vocab(gguf: GGUF, architecture: str) -> int | None:
    tokens = gguf.metadata.get("tokenizer.ggml.tokens")
    return len(tokens) if tokens is not None else gguf.get(f"{architecture}.vocab_size", int)


def _tokenizer(gguf: GGUF) -> str | None:
    kind, pre = gguf.get("tokenizer.ggml.model", str), gguf.get("tokenizer.ggml.pre", str)
    return f"{kind} ({pre})" if kind and pre else kind


def _templates(gguf: GGUF) -> dict[str, str]:
    """Template texts by name, the default one first."""
    prefix = "tokenizer.chat_template"
    found = {
        key.removeprefix(prefix).removeprefix(".") or "default": value
        for key, value in gguf.metadata.items()
        if (key == prefix or key.startswith(prefix + ".")) and isinstance(value, str)
    }
    return dict(sorted(found.items(), key=lambda item: item[0] != "default"))


def _family(template: str) -> str | None:
    return next((name for name, mark in _TEMPLATE_MARKS if mark in template), None)


def _sampling(gguf: GGUF) -> dict[str, Any]:
    prefix = "general.sampling."
    return {
        key.removeprefix(prefix): value
        for key, value in gguf.metadata.items()
        if key.startswith(prefix) and isinstance(value, bool | int | float | str)
    }
