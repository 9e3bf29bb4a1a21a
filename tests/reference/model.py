"""The slow obvious truth: a forward pass over dequantised weights in plain numpy.

One pass computes all positions from an empty context, without KV cache, tiles or threads. All ten architectures are
the same skeleton; what differs is which tensors a file has and the numbers of Hparams.

Source: llama.cpp b11434 src/models/{llama,qwen2,qwen3,qwen3moe,gemma2,gemma3,phi3,olmo2,granite,smollm3}.cpp and
src/llama-graph.cpp (build_qkv, build_ffn, build_moe_ffn, build_attn_mha) for the order of operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from reference.files import GGUFNumbers
from reference.hparams import Hparams, read_hparams
from reference.rope import rotate

# the smallest normal half: llama.cpp's lower bound of the sum that expert weights are divided by
SMALLEST_HALF = 6.103515625e-5


class Reference:
    """One GGUF file's logits.

    dtype: of weights and activations. float64 is exact for all purposes here; float32 halves memory and time for real
    models, and its error is far below that of 8-bit activations. Norms and rope are float64 either way.
    n_ctx: the context that a runtime is set to; it chooses between LongRoPE's short and long factors, nothing else.
    """

    def __init__(self, path: Path, *, dtype: type = np.float64, n_ctx: int = 256) -> None:
        file = GGUFNumbers(path)
        self.hparams: Hparams = read_hparams(file.metadata)
        self.n_ctx = n_ctx
        self._dtype = dtype
        self.tensors = {name: tensor.astype(dtype, copy=False) for name, tensor in file.tensors()}

    def logits(self, ids: Sequence[int]) -> np.ndarray:
        """dtype[len(ids), n_vocab]: row i is the next token's logits after ids[: i + 1]."""
        hp = self.hparams
        x = self.tensors["token_embd.weight"][np.asarray(ids)] * self._dtype(hp.embedding_scale)  # [n_tokens, n_embd]
        for il in range(hp.n_layer):
            x = self._layer(x, il)
        x = self._norm(x, "output_norm")
        head = "output" if "output.weight" in self.tensors else "token_embd"
        logits = self._linear(x, head) / self._dtype(hp.logit_scale)
        return _softcap(logits, hp.final_softcap)

    def _layer(self, x: np.ndarray, il: int) -> np.ndarray:
        blk, scale = f"blk.{il}", self._dtype(self.hparams.residual_scale)
        h = self._attention(self._norm(x, f"{blk}.attn_norm"), il)
        x = x + scale * self._norm(h, f"{blk}.post_attention_norm")
        h = self._feed_forward(self._norm(x, f"{blk}.ffn_norm"), blk)
        return x + scale * self._norm(h, f"{blk}.post_ffw_norm")

    def _attention(self, x: np.ndarray, il: int) -> np.ndarray:
        hp, blk = self.hparams, f"blk.{il}"
        q, k, v = self._qkv(x, blk)
        q, k = self._head_norm(q, f"{blk}.attn_q_norm"), self._head_norm(k, f"{blk}.attn_k_norm")
        if hp.has_rope[il]:
            rope = hp.rope_swa if hp.is_swa[il] else hp.rope
            factors = self._rope_factors()
            q, k = rotate(q, rope, factors), rotate(k, rope, factors)
        seen = _visible(len(x), hp.n_swa if hp.is_swa[il] else 0)
        out = np.empty_like(q)
        for head in range(hp.n_head):
            kv = head // (hp.n_head // hp.n_head_kv)
            scores = q[:, head] @ k[:, kv].T * self._dtype(hp.attention_scale)  # [query, key]
            scores = _softcap(scores, hp.attn_softcap)
            out[:, head] = _softmax(np.where(seen, scores, self._dtype(-np.inf))) @ v[:, kv]
        return self._linear(out.reshape(len(x), -1), f"{blk}.attn_output")

    def _qkv(self, x: np.ndarray, blk: str) -> list[np.ndarray]:
        """q [n_tokens, n_head, n_embd_head]; k, v [n_tokens, n_head_kv, n_embd_head]"""
        hp = self.hparams
        heads = (hp.n_head, hp.n_head_kv, hp.n_head_kv)
        if f"{blk}.attn_qkv.weight" in self.tensors:
            rows = [n * hp.n_embd_head for n in heads]
            parts = np.split(self._linear(x, f"{blk}.attn_qkv"), np.cumsum(rows)[:2], axis=1)
        else:
            parts = [self._linear(x, f"{blk}.attn_{name}") for name in "qkv"]
        return [part.reshape(len(x), n, hp.n_embd_head) for part, n in zip(parts, heads, strict=True)]

    def _head_norm(self, x: np.ndarray, name: str) -> np.ndarray:
        """Each head by itself, or (olmo2, whose weight is as long as the row) all heads as one vector."""
        weight = self.tensors.get(f"{name}.weight")
        if weight is None or len(weight) == self.hparams.n_embd_head:
            return self._norm(x, name)
        return self._norm(x.reshape(len(x), -1), name).reshape(x.shape)

    def _rope_factors(self) -> np.ndarray | None:
        length = "long" if self.n_ctx > self.hparams.rope.n_ctx_orig else "short"
        for name in ("rope_freqs", f"rope_factors_{length}"):
            if f"{name}.weight" in self.tensors:
                return self.tensors[f"{name}.weight"]
        return None

    def _feed_forward(self, x: np.ndarray, blk: str) -> np.ndarray:
        if f"{blk}.ffn_gate_inp.weight" in self.tensors:
            return self._experts(x, blk)
        up = self._linear(x, f"{blk}.ffn_up")
        if f"{blk}.ffn_gate.weight" in self.tensors:
            gate = self._linear(x, f"{blk}.ffn_gate")
        else:  # phi3: one matrix, gate's rows first
            gate, up = np.split(up, 2, axis=1)
        return self._linear(self._activation(gate) * up, f"{blk}.ffn_down")

    def _experts(self, x: np.ndarray, blk: str) -> np.ndarray:
        """Softmax over all experts, the best n_expert_used of them, their weights made to sum to one."""
        probabilities = _softmax(self._linear(x, f"{blk}.ffn_gate_inp").astype(np.float64))  # [n_tokens, n_expert]
        chosen = np.argsort(-probabilities, axis=1, kind="stable")[:, : self.hparams.n_expert_used]
        weights = np.take_along_axis(probabilities, chosen, axis=1)
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), SMALLEST_HALF)
        gate, up, down = (self.tensors[f"{blk}.ffn_{name}_exps.weight"] for name in ("gate", "up", "down"))
        out = np.zeros_like(x)
        for expert in range(len(gate)):
            rows, rank = np.nonzero(chosen == expert)
            h = self._activation(x[rows] @ gate[expert].T) * (x[rows] @ up[expert].T)
            out[rows] += weights[rows, rank, None].astype(self._dtype) * (h @ down[expert].T)
        return out

    def _activation(self, x: np.ndarray) -> np.ndarray:
        if self.hparams.gelu:
            return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi, dtype=self._dtype) * (x + 0.044715 * x**3)))
        return x * (0.5 + 0.5 * np.tanh(0.5 * x))  # SiLU: the logistic function by tanh cannot overflow

    def _linear(self, x: np.ndarray, name: str) -> np.ndarray:
        y = x @ self.tensors[f"{name}.weight"].T
        bias = self.tensors.get(f"{name}.bias")
        return y if bias is None else y + bias

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        """RMS norm of the last axis; x itself where the file has no such norm."""
        weight = self.tensors.get(f"{name}.weight")
        if weight is None:
            return x
        square = np.mean(np.square(x, dtype=np.float64), axis=-1, keepdims=True)
        return (x / np.sqrt(square + self.hparams.eps)).astype(self._dtype) * weight


def _visible(n: int, n_swa: int) -> np.ndarray:
    """bool[query, key]: keys at or before the query, and fewer than n_swa tokens before it unless n_swa is 0."""
    distance = np.arange(n)[:, None] - np.arange(n)[None, :]
    return (distance >= 0) & ((distance < n_swa) if n_swa else True)


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _softcap(x: np.ndarray, cap: float) -> np.ndarray:
    return x if cap == 0.0 else (cap * np.tanh(x / cap)).astype(x.dtype)
