"""Choosing the next token from logits: llama.cpp's sampler chain as small pure functions."""

from chenxing.sampling.constraint import Constraint
from chenxing.sampling.logprobs import logprobs, top_ids
from chenxing.sampling.params import SamplingParams
from chenxing.sampling.sampler import Sampler

__all__ = ["Constraint", "Sampler", "SamplingParams", "logprobs", "top_ids"]
