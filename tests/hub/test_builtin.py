import hashlib

import pytest

from chenxing.hub.builtin import BUILTIN_MODELS


def test_the_built_in_table():
    assert set(BUILTIN_MODELS) == {"smollm2", "gemma3-270m"}
    for name, model in BUILTIN_MODELS.items():
        assert model.name == name
        assert name == name.casefold()
        assert len(bytes.fromhex(model.sha256)) == 32
    assert [part.member[-6:] for part in BUILTIN_MODELS["gemma3-270m"].parts] == [
        "part00",
        "part01",
        "part02",
        "part03",
    ]
    assert "ai.google.dev/gemma/terms" in BUILTIN_MODELS["gemma3-270m"].notice


@pytest.mark.model
def test_the_built_in_models_are_what_the_table_says(smollm2_path, gemma3_path):
    """The fixtures' files, which are fetched through this table where no folder of models is given."""
    for name, path in (("smollm2", smollm2_path), ("gemma3-270m", gemma3_path)):
        model = BUILTIN_MODELS[name]
        assert path.stat().st_size == model.n_bytes
        assert hashlib.sha256(path.read_bytes()).hexdigest() == model.sha256
