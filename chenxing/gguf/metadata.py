"""Typed access to metadata: the value as the type that the caller computes with, or an error that names the key."""

from pathlib import Path
from typing import Any, TypeVar

from chenxing.errors import ModelFileError
from chenxing.gguf.cursor import shown

T = TypeVar("T")


def typed(path: Path, metadata: dict[str, Any], key: str, kind: type[T]) -> T | None:
    """The value of key as `kind` (bool, int, float, str, np.ndarray, StringArray, list), None if there is no such key.

    An int serves where a float is asked for; a bool is no int. Raises ModelFileError for any other type.
    """
    value = metadata.get(key)
    if kind is float and type(value) is int:
        value = float(value)
    if value is None or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
        return value
    found = f"{type(value).__name__} {shown(str(value))}"
    raise ModelFileError(
        path, f"metadata key {shown(key)}", kind.__name__, found, "The model is damaged or mislabelled"
    )


def required(path: Path, metadata: dict[str, Any], key: str, kind: type[T]) -> T:
    """As `typed`, but a missing key raises ModelFileError too."""
    value = typed(path, metadata, key, kind)
    if value is None:
        hint = "The file is no model of this kind, or was converted by a faulty tool"
        raise ModelFileError(path, f"metadata key {shown(key)}", kind.__name__, "no such key", hint)
    return value
