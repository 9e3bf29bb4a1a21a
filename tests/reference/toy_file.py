"""A tiny GGUF file with random weights, of any of the ten architectures; toys.py lists the ones that tests use.

Weights are scaled so that every part matters: attention is neither flat nor one-hot, and layers change the residual
stream by as much as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

from reference.blocks import LAYOUTS, random_blocks, uniform
from reference.vocabulary import N_VOCAB, byte_pairs, sentencepiece

N_CTX_TRAIN = 2048


@dataclass(frozen=True)
class Shape:
    n_layer: int = 4
    n_embd: int = 128
    n_head: int = 4
    n_head_kv: int = 2
    n_embd_head: int = 32
    n_ff: int = 192
    n_expert: int = 0


@dataclass(frozen=True)
class Toy:
    """One file. `metadata` keys are without the architecture's prefix; n_ctx is the context to run it with."""

    name: str
    architecture: str
    shape: Shape
    metadata: dict[str, Any]
    ggml_type: Type = Type.F32
    tied: bool = False
    biases: tuple[str, ...] = ()
    factors: tuple[str, ...] = ()  # tensors of n_rot / 2 divisors of the rotation's frequencies
    n_ctx: int = 256
    mixed: dict[str, Type] = field(default_factory=dict)  # by part of the tensor's name, instead of ggml_type

    def write(self, folder: Path) -> Path:
        path = folder / f"{self.name}.gguf"
        writer = gguf.GGUFWriter(path, self.architecture)
        for key, value in self._all_metadata():
            _add(writer, key, value)
        for name, shape in self._tensors():
            data, ggml_type = self._weights(name, shape)
            writer.add_tensor(name, data, raw_dtype=ggml_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    def _all_metadata(self) -> Iterator[tuple[str, Any]]:
        s = self.shape
        own = {
            "context_length": N_CTX_TRAIN,
            "block_count": s.n_layer,
            "embedding_length": s.n_embd,
            "feed_forward_length": s.n_ff,
            "attention.head_count": s.n_head,
            "attention.head_count_kv": s.n_head_kv,
            "attention.key_length": s.n_embd_head,
            "attention.value_length": s.n_embd_head,
            "attention.layer_norm_rms_epsilon": 1e-5,
            "rope.dimension_count": s.n_embd_head,
            **({"expert_count": s.n_expert, "expert_used_count": 2} if s.n_expert else {}),
            **self.metadata,
        }
        yield "general.name", "toy"  # llama.cpp asks for more tokens of a file that has phi3 in its name
        for key, value in own.items():
            yield f"{self.architecture}.{key}", value
        vocabulary = VOCABULARIES[self.architecture]
        for key, value in vocabulary.items():
            yield f"tokenizer.ggml.{key}", value

    def _tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes, rows first."""
        s = self.shape
        yield "token_embd.weight", (N_VOCAB, s.n_embd)
        yield "output_norm.weight", (s.n_embd,)
        if not self.tied:
            yield "output.weight", (N_VOCAB, s.n_embd)
        n_rot = self.metadata.get("rope.dimension_count", s.n_embd_head)
        for name in self.factors:
            yield name, (n_rot // 2,)
        for il in range(s.n_layer):
            for name, shape in self._layer_tensors():
                yield f"blk.{il}.{name}", shape

    def _layer_tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        s, arch = self.shape, self.architecture
        n_q, n_kv = s.n_head * s.n_embd_head, s.n_head_kv * s.n_embd_head
        if arch == "phi3":
            yield "attn_qkv.weight", (n_q + 2 * n_kv, s.n_embd)
        else:
            for name, rows in (("q", n_q), ("k", n_kv), ("v", n_kv)):
                yield f"attn_{name}.weight", (rows, s.n_embd)
        yield "attn_output.weight", (s.n_embd, n_q)
        if arch != "olmo2":
            yield "attn_norm.weight", (s.n_embd,)
            yield "ffn_norm.weight", (s.n_embd,)
        if arch in {"gemma2", "gemma3", "olmo2"}:
            yield "post_attention_norm.weight", (s.n_embd,)
            yield "post_ffw_norm.weight", (s.n_embd,)
        if arch in {"qwen3", "qwen3moe", "gemma3", "olmo2"}:
            yield "attn_q_norm.weight", (n_q if arch == "olmo2" else s.n_embd_head,)
            yield "attn_k_norm.weight", (n_kv if arch == "olmo2" else s.n_embd_head,)
        for name in self.biases:
            yield f"{name}.bias", ({"attn_q": n_q, "attn_k": n_kv, "attn_v": n_kv}.get(name, s.n_embd),)
        yield from self._ffn_tensors()

    def _ffn_tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        s = self.shape
        if s.n_expert:
            n_ff = self.metadata.get("expert_feed_forward_length", s.n_ff)
            yield "ffn_gate_inp.weight", (s.n_expert, s.n_embd)
            yield "ffn_gate_exps.weight", (s.n_expert, n_ff, s.n_embd)
            yield "ffn_up_exps.weight", (s.n_expert, n_ff, s.n_embd)
            yield "ffn_down_exps.weight", (s.n_expert, s.n_embd, n_ff)
        elif self.architecture == "phi3":
            yield "ffn_up.weight", (2 * s.n_ff, s.n_embd)
            yield "ffn_down.weight", (s.n_embd, s.n_ff)
        else:
            yield "ffn_gate.weight", (s.n_ff, s.n_embd)
            yield "ffn_up.weight", (s.n_ff, s.n_embd)
            yield "ffn_down.weight", (s.n_embd, s.n_ff)

    def _weights(self, name: str, shape: tuple[int, ...]) -> tuple[np.ndarray, Type]:
        """Data and type of one tensor; vectors and routers are F32 in every real file, and here."""
        if name in self.factors:
            return uniform(name, shape, 1.0, 6.0), Type.F32
        if "norm" in name:
            return uniform(name, shape, 0.5, 1.9), Type.F32
        if name.endswith(".bias"):
            return uniform(name, shape, -0.8, 0.8), Type.F32
        std = self._gain(name) / np.sqrt(shape[-1])
        ggml_type = next((t for part, t in self.mixed.items() if part in name), self.ggml_type)
        if "ffn_gate_inp" in name:
            ggml_type = Type.F32
        if ggml_type in LAYOUTS:
            return random_blocks(name, shape, std, ggml_type), ggml_type
        bound = np.sqrt(3.0) * std  # of a uniform distribution
        return gguf.quants.quantize(uniform(name, shape, -bound, bound), ggml_type), ggml_type

    def _gain(self, name: str) -> float:
        """The output's standard deviation for inputs of standard deviation 1."""
        if "ffn_gate_inp" in name:
            return 4.0  # a sharp router: near ties of experts would make any two implementations differ
        if name.startswith("token_embd") and "gemma" in self.architecture:
            return 1.5  # they scale it up and use it as the head too: more would only repeat the last token
        return 2.5 if name.startswith(("token_embd", "output.")) else 1.2


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, list):
        writer.add_array(key, value)
    else:
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        add[type(value)](key, value)


VOCABULARIES = {
    **dict.fromkeys(("llama", "gemma2", "gemma3", "phi3"), sentencepiece()),
    **dict.fromkeys(("qwen2", "qwen3", "qwen3moe"), byte_pairs("qwen2")),
    "olmo2": byte_pairs("dbrx"),
    "granite": byte_pairs("refact"),
    "smollm3": byte_pairs("llama-bpe"),
}
