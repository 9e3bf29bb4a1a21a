"""Small vocabularies of three kinds, with a cache folder of the tests' own."""

from pathlib import Path

import pytest

from chenxing.config import Paths, Settings
from chenxing.gguf import open_gguf
from chenxing.sampling.grammar import Grammars
from chenxing.tokenizer import Tokenizer, load_tokenizer

DATA = Path(__file__).parents[1] / "data" / "tokenizer"


@pytest.fixture(scope="session", params=["bpe", "spm", "wpm"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    home = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("chenxing.tokenizer.cache.settings", lambda: Settings(Paths(home, home, home)))
        return load_tokenizer(open_gguf(DATA / f"{request.param}.gguf"))


@pytest.fixture(scope="session")
def grammars(tokenizer: Tokenizer) -> Grammars:
    """Rows of logits are longer than the vocabulary, as padded models have them."""
    return Grammars(tokenizer, tokenizer.n_vocab + 37)
