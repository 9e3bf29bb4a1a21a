"""Files of three tensors, of which packed files are made."""

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, quants

from chenxing.models.spec import matrix, vector
from chenxing.models.weight_cache import Packed

SPECS = [matrix("a.weight", 40, 64), vector("b.weight", 64), matrix("c.weight", 32, 64, rope_dims=(16, 8))]


def write_model(path: Path, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    writer = GGUFWriter(path, "llama")
    for name, rows in (("a.weight", 40), ("c.weight", 32)):
        w = quants.quantize(rng.standard_normal((rows, 64)).astype(np.float32), GGMLQuantizationType.Q8_0)
        writer.add_tensor(name, w, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.add_tensor("b.weight", rng.standard_normal(64).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def contents(packed: Packed) -> dict[str, bytes]:
    return {spec.name: packed.array(spec.name).tobytes() for spec in SPECS}
