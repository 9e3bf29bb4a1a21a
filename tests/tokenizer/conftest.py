"""Small vocabularies in tests/data/tokenizer, and a cache folder of the tests' own."""

from dataclasses import replace
from pathlib import Path

import pytest

from chenxing.config import Paths, Settings
from chenxing.gguf import GGUF, open_gguf
from chenxing.tokenizer import Tokenizer, load_tokenizer

DATA = Path(__file__).parents[1] / "data" / "tokenizer"


@pytest.fixture(scope="session")
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(cache_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(Paths(cache_home, cache_home, cache_home))
    monkeypatch.setattr("chenxing.tokenizer.cache.settings", lambda: settings)


@pytest.fixture
def data() -> Path:
    return DATA


@pytest.fixture
def load():
    """load(name, **keys): the tokenizer of a small vocabulary, with tokenizer.ggml keys replaced (None: removed)."""

    def _load(name: str, **keys: object) -> Tokenizer:
        return load_tokenizer(with_keys(open_gguf(DATA / f"{name}.gguf"), **keys))

    return _load


def with_keys(model: GGUF, /, **keys: object) -> GGUF:
    changes = {f"tokenizer.ggml.{key}": value for key, value in keys.items()}
    metadata = {key: value for key, value in (model.metadata | changes).items() if value is not None}
    return replace(model, metadata=metadata)
