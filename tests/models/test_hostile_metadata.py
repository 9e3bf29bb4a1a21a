"""Numbers in metadata that contradict the file, or no machine could serve, are one clear error, at once."""

import math
import time
from pathlib import Path

import numpy as np
import pytest
from reference.toys import FLOAT_TOYS

from chenxing.errors import ModelFileError, UnsupportedModelError
from chenxing.gguf import open_gguf
from chenxing.models.model import read_model
from chenxing.models.rope import frequencies
from chenxing.models.spec import ARCHITECTURES
from chenxing.models.weights import check_tensors

EXTREMES = [0, -1, 1, 3, 2**31 - 1, 2**40, 2**62, 0.0, -1.0, float("nan"), float("inf"), 1e300, "text", True]


@pytest.mark.parametrize("arch", sorted(ARCHITECTURES))
def test_every_number_at_its_extremes(arch: str, tmp_path: Path) -> None:
    toy = next(t for t in FLOAT_TOYS.values() if t.architecture == arch)
    model = open_gguf(toy.write(tmp_path))
    numbers = [k for k, v in model.metadata.items() if k.startswith(f"{arch}.") and isinstance(v, int | float)]
    assert len(numbers) > 5
    refused = 0
    for key in numbers:
        honest = model.metadata[key]
        for value in EXTREMES:
            model.metadata[key] = value
            started = time.process_time()
            try:
                hp = read_model(model)
                check_tensors(model, list(ARCHITECTURES[arch].tensors(hp)))
                assert np.isfinite(frequencies(hp.rope)).all() and math.isfinite(hp.norm_eps)
            except (ModelFileError, UnsupportedModelError) as e:
                assert str(model.path) in str(e)
                refused += 1
            assert time.process_time() - started < 1, (key, value)
        model.metadata[key] = honest
    assert refused > len(numbers)


def test_more_layers_than_tensors(tmp_path: Path) -> None:
    model = open_gguf(next(iter(FLOAT_TOYS.values())).write(tmp_path))
    model.metadata[f"{model.architecture}.block_count"] = 2**40
    with pytest.raises(ModelFileError, match=r"block_count: expected 1 to \d+ layers, found 1099511627776"):
        read_model(model)
