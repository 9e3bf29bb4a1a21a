"""Models of real shapes with random weights: python -m benchmarks.synthetic FOLDER [MIXTURE ...]

Shapes, rotation and vocabulary size are those of Llama 3.2 1B. Tokens are made-up strings, all made by merges.
"""

import argparse
import itertools
import os
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

from benchmarks.blocks import random_blocks
from benchmarks.mixtures import MIXTURES, Mixture

N_SPECIAL = 256  # control tokens at the end of the vocabulary


@dataclass(frozen=True)
class Shape:
    """A llama model's sizes, Llama 3.2 1B's by default. n_ctx_orig: context before the rotations were stretched."""

    n_embd: int = 2048
    n_layer: int = 16
    n_head: int = 32
    n_head_kv: int = 8
    head_dim: int = 64
    n_ff: int = 8192
    n_vocab: int = 128256
    n_ctx: int = 131072
    n_ctx_orig: int = 8192
    freq_base: float = 500000.0
    freq_factor: float = 32.0


LLAMA_1B = Shape()


def model_path(folder: Path, mixture: str) -> Path:
    return folder / f"synthetic-1b-{mixture}.gguf"


def write_model(path: Path, mixture: str, shape: Shape = LLAMA_1B) -> None:
    """Write the file; readers see nothing or the whole. The same arguments give the same weights."""
    kind = MIXTURES[mixture]
    part = path.with_name(path.name + ".part")
    writer = gguf.GGUFWriter(part, "llama")
    _add_metadata(writer, kind, shape)
    _add_vocabulary(writer, shape.n_vocab)
    tensors = list(_tensors(kind, shape))
    for name, dims, tensor_type in tensors:
        n_bytes = _row_bytes(dims, tensor_type)
        stored = (*dims[:-1], n_bytes // int(np.prod(dims[:-1])))
        writer.add_tensor_info(name, stored, np.dtype(np.uint8), n_bytes, raw_dtype=tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    rng = np.random.default_rng(7)
    for name, dims, tensor_type in tensors:
        writer.write_tensor_data(_weights(rng, name, dims, tensor_type, shape))
    writer.close()
    os.replace(part, path)


def _row_bytes(dims: tuple[int, ...], tensor_type: Type) -> int:
    block_size, type_size = gguf.GGML_QUANT_SIZES[tensor_type]
    return int(np.prod(dims)) // block_size * type_size


def _add_metadata(writer: gguf.GGUFWriter, mixture: Mixture, s: Shape) -> None:
    writer.add_name("Synthetic llama, random weights")
    writer.add_file_type(mixture.file_type)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_context_length(s.n_ctx)
    writer.add_embedding_length(s.n_embd)
    writer.add_block_count(s.n_layer)
    writer.add_feed_forward_length(s.n_ff)
    writer.add_head_count(s.n_head)
    writer.add_head_count_kv(s.n_head_kv)
    writer.add_key_length(s.head_dim)
    writer.add_value_length(s.head_dim)
    writer.add_rope_dimension_count(s.head_dim)
    writer.add_rope_freq_base(s.freq_base)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(s.n_vocab)


def _add_vocabulary(writer: gguf.GGUFWriter, n_vocab: int) -> None:
    """Byte-level BPE: the 256 bytes, strings of two and three letters in order, control tokens."""
    letters = string.ascii_letters
    alphabet = _byte_characters()
    strings = ("".join(word) for length in (2, 3) for word in itertools.product(letters, repeat=length))
    merged = list(itertools.islice(strings, n_vocab - len(alphabet) - N_SPECIAL))
    names = {0: "<|begin_of_text|>", 1: "<|end_of_text|>", 9: "<|eot_id|>"}
    special = [names.get(i, f"<|reserved_special_token_{i}|>") for i in range(N_SPECIAL)]
    tokens = alphabet + merged + special
    assert len(tokens) == len(set(tokens)) == n_vocab
    first = n_vocab - N_SPECIAL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * first + [gguf.TokenType.CONTROL] * N_SPECIAL)
    writer.add_token_merges([f"{text[:-1]} {text[-1]}" for text in merged])
    writer.add_bos_token_id(first)
    writer.add_eos_token_id(first + 9)
    writer.add_add_bos_token(True)


def _byte_characters() -> list[str]:
    """GPT-2's character for each byte: itself where it prints, else the next from 256 on."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = itertools.count(256)
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def _tensors(mixture: Mixture, s: Shape) -> Iterator[tuple[str, tuple[int, ...], Type]]:
    """Name, shape (rows first) and type of every tensor, in the order of real files."""
    n_q, n_kv = s.n_head * s.head_dim, s.n_head_kv * s.head_dim
    yield "rope_freqs.weight", (s.head_dim // 2,), Type.F32
    yield "token_embd.weight", (s.n_vocab, s.n_embd), mixture.embedding
    matrices = {
        "attn_q": (n_q, s.n_embd),
        "attn_k": (n_kv, s.n_embd),
        "attn_v": (n_kv, s.n_embd),
        "attn_output": (s.n_embd, n_q),
        "ffn_gate": (s.n_ff, s.n_embd),
        "ffn_up": (s.n_ff, s.n_embd),
        "ffn_down": (s.n_embd, s.n_ff),
    }
    for layer in range(s.n_layer):
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{name}.weight", (s.n_embd,), Type.F32
        for name, dims in matrices.items():
            yield f"blk.{layer}.{name}.weight", dims, mixture.choose(name, layer, s.n_layer)
    yield "output_norm.weight", (s.n_embd,), Type.F32


def _weights(rng: np.random.Generator, name: str, dims: tuple[int, ...], tensor_type: Type, shape: Shape) -> np.ndarray:
    if name == "rope_freqs.weight":
        return frequency_factors(shape)
    if tensor_type is Type.F32:
        return np.ones(dims, np.float32)
    # what a matrix gives is as large as what it is given; logits, from normed rows, get a spread of 2.5
    gain = 2.5 if name.startswith("token_embd") else 1.0
    return random_blocks(rng, (dims[0], dims[1]), gain / np.sqrt(dims[1]), tensor_type)


def frequency_factors(s: Shape) -> np.ndarray:
    """f32[head_dim / 2]: 1 for fast rotations, freq_factor for slow ones, blended between.

    Source  Llama 3.1's rope scaling, low_freq_factor 1 and high_freq_factor 4 (transformers, rope_utils)
    """
    wavelengths = 2 * np.pi * s.freq_base ** (np.arange(0, s.head_dim, 2) / s.head_dim)
    blend = np.clip((s.n_ctx_orig / wavelengths - 1) / (4 - 1), 0, 1)
    return (1 / ((1 - blend) / s.freq_factor + blend)).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.synthetic", description="Write random models.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("mixtures", nargs="*", metavar="MIXTURE", help=f"of {', '.join(MIXTURES)} (all)")
    args = parser.parse_args()
    for mixture in args.mixtures or MIXTURES:
        path = model_path(args.folder, mixture)
        write_model(path, mixture)
        print(f"{path}  {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
