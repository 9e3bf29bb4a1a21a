"""GGUF model files: opened fast, checked before anything is believed, mapped and never copied."""

from chenxing.gguf.reader import GGUF, open_gguf
from chenxing.gguf.strings import StringArray
from chenxing.gguf.tensors import TensorInfo

__all__ = ["GGUF", "StringArray", "TensorInfo", "open_gguf"]
