"""Architectures, one file each. Importing this registers them all in ARCHITECTURES."""

from chenxing.models import (  # noqa: F401
    gemma2,
    gemma3,
    granite,
    llama,
    olmo2,
    phi3,
    qwen2,
    qwen3,
    qwen3moe,
    smollm3,
)
from chenxing.models.model import Model, load_model
from chenxing.models.spec import ARCHITECTURES
from chenxing.models.step import Run

__all__ = ["ARCHITECTURES", "Model", "Run", "load_model"]
