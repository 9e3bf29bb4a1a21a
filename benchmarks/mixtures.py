"""Which type each tensor of a file has under llama.cpp's names for mixtures, for a model like Llama 3.2 1B.

That is: architecture "llama", embeddings that serve as the output matrix, four query heads or more to a KV head.
Source  llama.cpp b11434, src/llama-quant.cpp (llama_tensor_get_type_impl); the file types of include/llama.h.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gguf import GGMLQuantizationType as Type

Choose = Callable[[str, int, int], Type]  # name within the layer, layer, layers


@dataclass(frozen=True)
class Mixture:
    """file_type: llama.cpp's number of the mixture. embedding: the type of token_embd. choose: that of a matrix."""

    file_type: int
    embedding: Type
    choose: Choose


def _gets_more_bits(layer: int, n_layer: int) -> bool:
    """The first and last eighth of the layers, and every third one between."""
    eighth = n_layer // 8
    return layer < eighth or layer >= 7 * n_layer // 8 or (layer - eighth) % 3 == 2


def _q4_k_m(name: str, layer: int, n_layer: int) -> Type:
    return Type.Q6_K if name in ("attn_v", "ffn_down") and _gets_more_bits(layer, n_layer) else Type.Q4_K


def _q2_k(name: str, layer: int, n_layer: int) -> Type:
    return {"attn_v": Type.Q4_K, "attn_output": Type.Q3_K, "ffn_down": Type.Q3_K}.get(name, Type.Q2_K)


MIXTURES = {
    "Q2_K": Mixture(10, Type.Q6_K, _q2_k),
    "Q4_K_M": Mixture(15, Type.Q6_K, _q4_k_m),
    "Q6_K": Mixture(18, Type.Q6_K, lambda name, layer, n_layer: Type.Q6_K),
    "Q8_0": Mixture(7, Type.Q8_0, lambda name, layer, n_layer: Type.Q8_0),
}
