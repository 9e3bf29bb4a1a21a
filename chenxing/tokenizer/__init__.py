"""Text to token ids and back, with llama.cpp's ids."""

from chenxing.tokenizer.base import Tokenizer
from chenxing.tokenizer.load import load_tokenizer

__all__ = ["Tokenizer", "load_tokenizer"]
