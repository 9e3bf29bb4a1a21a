from pathlib import Path

import numpy as np
import pytest

from chenxing.errors import ModelFileError
from chenxing.gguf.metadata import required, typed

PATH = Path("m.gguf")
METADATA = {"int": 3, "float": 0.5, "bool": True, "str": "a", "array": np.arange(3), "false": False, "zero": 0}


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("int", int),
        ("float", float),
        ("bool", bool),
        ("str", str),
        ("array", np.ndarray),
        ("false", bool),
        ("zero", int),
    ],
)
def test_values_of_the_right_type(key, kind):
    assert typed(PATH, METADATA, key, kind) is METADATA[key]
    assert required(PATH, METADATA, key, kind) is METADATA[key]


def test_an_int_serves_as_float():
    value = typed(PATH, METADATA, "int", float)
    assert (value, type(value)) == (3.0, float)


@pytest.mark.parametrize(
    ("key", "kind", "message"),
    [
        ("bool", int, "m.gguf: metadata key 'bool': expected int, found bool 'True'"),
        ("bool", float, "m.gguf: metadata key 'bool': expected float, found bool 'True'"),
        ("int", bool, "m.gguf: metadata key 'int': expected bool, found int '3'"),
        ("float", int, "m.gguf: metadata key 'float': expected int, found float '0.5'"),
        ("str", np.ndarray, "m.gguf: metadata key 'str': expected ndarray, found str 'a'"),
        ("array", int, "m.gguf: metadata key 'array': expected int, found ndarray '[0 1 2]'"),
    ],
)
def test_values_of_another_type(key, kind, message):
    for access in (typed, required):
        with pytest.raises(ModelFileError) as e:
            access(PATH, METADATA, key, kind)
        assert str(e.value).startswith(message)


def test_missing_keys():
    assert typed(PATH, METADATA, "llama.block_count", int) is None
    with pytest.raises(ModelFileError, match=r"metadata key 'llama\.block_count': expected int, found no such key"):
        required(PATH, METADATA, "llama.block_count", int)
