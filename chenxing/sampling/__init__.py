"""Choosing the next token from logits: llama.cpp's sampler chain as small pure functions."""

from chenxing.sampling.biases import token_biases
from chenxing.sampling.constraint import Constraint
from chenxing.sampling.logprobs import TokenLogprobs, after_sampling, before_sampling, logprobs, top_ids
from chenxing.sampling.params import SamplingParams
from chenxing.sampling.sampler import Sampler

__all__ = [
    "Constraint",
    "Sampler",
    "SamplingParams",
    "TokenLogprobs",
    "after_sampling",
    "before_sampling",
    "logprobs",
    "token_biases",
    "top_ids",
]
