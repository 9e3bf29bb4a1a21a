"""Qwen 3, dense: norms of every query and key head before the rotation.

Source  Yang 2025; llama.cpp b11434 src/models/qwen3.cpp
"""

from chenxing.models.hparams import read_hparams
from chenxing.models.spec import architecture, embeddings, gated_ffn, matrix, qkv, vector


@architecture("qwen3")
class Qwen3:
    @staticmethod
    def hparams(model):
        return read_hparams(model)

    @staticmethod
    def tensors(hp):
        yield from embeddings(hp)
        for i in range(hp.n_layer):
            p = f"blk.{i}."
            yield vector(p + "attn_norm.weight", hp.n_embd)
            yield from qkv(hp, p)
            yield vector(p + "attn_q_norm.weight", hp.head_dim)
            yield vector(p + "attn_k_norm.weight", hp.head_dim)
            yield matrix(p + "attn_output.weight", hp.n_embd, hp.n_q)
            yield vector(p + "ffn_norm.weight", hp.n_embd)
            yield from gated_ffn(hp, p)

    @staticmethod
    def forward(hp, w, g):
        rope = g.rope(hp.rope)
        x = g.embed(w["token_embd"])
        for i in range(hp.n_layer):
            b = w.layer(i)
            h = g.rms_norm(x, b["attn_norm"])
            q, k, v = g.compute("qkv", *(g.linear(h, b[f"attn_{n}"], b.get(f"attn_{n}.bias")) for n in "qkv"))
            a = g.attend(i, q, k, v, rope=rope, q_norm=b["attn_q_norm"], k_norm=b["attn_k_norm"])
            x = g.add(x, g.linear(a, b["attn_output"]))
            h = g.rms_norm(x, b["ffn_norm"])
            gate, up = g.compute("ffn", g.linear(h, b["ffn_gate"]), g.linear(h, b["ffn_up"]))
            x = g.add(x, g.linear(g.gated(gate, up, "silu"), b["ffn_down"]))
        g.logits(g.linear(g.rms_norm(g.outputs(x), w["output_norm"]), w["output"]))
