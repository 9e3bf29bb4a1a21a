"""Architectures, one file each. Importing this registers them all in ARCHITECTURES."""

from chenxing.models import gemma3, llama  # noqa: F401
from chenxing.models.model import Model, load_model
from chenxing.models.spec import ARCHITECTURES
from chenxing.models.step import Run

__all__ = ["ARCHITECTURES", "Model", "Run", "load_model"]
