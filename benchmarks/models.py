"""The models that are measured: two real ones by their built-in names, synthetic ones of 1.2 billion weights."""

from pathlib import Path

from benchmarks.case import BenchModel
from benchmarks.mixtures import MIXTURES
from benchmarks.synthetic import model_path, write_model
from chenxing import hub
from chenxing.config import settings

_REAL = {"smollm2": "SmolLM2-135M Q4_1", "gemma3-270m": "Gemma-3-270M Q4_K_M"}
NAMES = (*MIXTURES, *_REAL)


def open_model(name: str, folder: Path | None) -> BenchModel:
    """The model of this name, made or pulled if need be. folder: where synthetic ones are, the cache by default."""
    if name in _REAL:
        return BenchModel(_REAL[name], hub.resolve(name), small=True)
    folder = folder or settings().paths.cache / "benchmarks"
    folder.mkdir(parents=True, exist_ok=True)
    path = model_path(folder, name)
    if not path.exists():
        print(f"writing {path}", flush=True)
        write_model(path, name)
    return BenchModel(f"synthetic 1B {name}", path)
