"""A tiny model with random weights, for a selfcheck where no real one is at hand."""

from pathlib import Path

import numpy as np

_N_LAYER, _N_EMBD, _N_HEAD, _N_HEAD_KV, _N_FF = 2, 128, 4, 2, 256
_N_CTX = 2048


def write_toy(path: Path) -> Path:
    """Write a llama with Q8_0 weights whose tokens are the 256 bytes. The same file every time."""
    from gguf import GGMLQuantizationType, GGUFWriter, TokenType, quants

    writer = GGUFWriter(path, "llama")
    writer.add_name("toy with random weights")
    writer.add_context_length(_N_CTX)
    writer.add_block_count(_N_LAYER)
    writer.add_embedding_length(_N_EMBD)
    writer.add_feed_forward_length(_N_FF)
    writer.add_head_count(_N_HEAD)
    writer.add_head_count_kv(_N_HEAD_KV)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_N_EMBD // _N_HEAD)
    tokens = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types([TokenType.UNKNOWN] + [TokenType.BYTE] * 256)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    rng = np.random.default_rng(1)
    for name, shape in _tensors(len(tokens)).items():
        if len(shape) == 1:
            writer.add_tensor(name, np.ones(shape, np.float32))
        else:
            # what a matrix gives is as large as what it is given; logits get a spread of 2.5
            gain = 2.5 if name.startswith("token_embd") else 1.2
            weights = (gain / np.sqrt(shape[1]) * rng.standard_normal(shape)).astype(np.float32)
            q8_0 = GGMLQuantizationType.Q8_0
            writer.add_tensor(name, quants.quantize(weights, q8_0), raw_dtype=q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(n_vocab: int) -> dict[str, tuple[int, ...]]:
    """Name and shape, rows first; the head is the embedding's table."""
    n_kv = _N_EMBD // _N_HEAD * _N_HEAD_KV
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (n_vocab, _N_EMBD), "output_norm.weight": (_N_EMBD,)}
    for layer in range(_N_LAYER):
        of_layer: dict[str, tuple[int, ...]] = {
            "attn_norm": (_N_EMBD,),
            "attn_q": (_N_EMBD, _N_EMBD),
            "attn_k": (n_kv, _N_EMBD),
            "attn_v": (n_kv, _N_EMBD),
            "attn_output": (_N_EMBD, _N_EMBD),
            "ffn_norm": (_N_EMBD,),
            "ffn_gate": (_N_FF, _N_EMBD),
            "ffn_up": (_N_FF, _N_EMBD),
            "ffn_down": (_N_EMBD, _N_FF),
        }
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in of_layer.items()}
    return shapes
