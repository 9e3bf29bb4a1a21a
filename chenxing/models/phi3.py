"""Phi 3, 3.5 and 4: Llama with queries, keys and values in one matrix, gate and up in another, and LongRoPE.

Files name a window too; like llama.cpp we do without it, since converters do not say which layers have one.

Source  Abdin 2024 (Phi-3), Ding 2024 (LongRoPE); llama.cpp b11434 src/models/phi3.cpp
"""

from chenxing.models.hparams import read_hparams
from chenxing.models.spec import architecture, chosen_rope_factors, embeddings, matrix, rope_factors, vector


@architecture("phi3")
class Phi3:
    @staticmethod
    def hparams(model):
        return read_hparams(model, {"attention.sliding_window"})

    @staticmethod
    def tensors(hp):
        yield from embeddings(hp)
        yield from rope_factors(hp)
        for i in range(hp.n_layer):
            p = f"blk.{i}."
            yield vector(p + "attn_norm.weight", hp.n_embd)
            yield matrix(p + "attn_qkv.weight", hp.n_q + 2 * hp.n_kv, hp.n_embd)
            yield vector(p + "attn_qkv.bias", hp.n_q + 2 * hp.n_kv, optional=True)
            yield matrix(p + "attn_output.weight", hp.n_embd, hp.n_q)
            yield vector(p + "ffn_norm.weight", hp.n_embd)
            yield matrix(p + "ffn_up.weight", 2 * hp.n_ff, hp.n_embd)
            yield matrix(p + "ffn_down.weight", hp.n_embd, hp.n_ff)

    @staticmethod
    def forward(hp, w, g):
        rope = g.rope(hp.rope, chosen_rope_factors(hp, w))
        x = g.embed(w["token_embd"])
        for i in range(hp.n_layer):
            b = w.layer(i)
            h = g.rms_norm(x, b["attn_norm"])
            (qkv,) = g.compute("qkv", g.linear(h, b["attn_qkv"], b.get("attn_qkv.bias")))
            q, k, v = qkv.columns(0, hp.n_q), qkv.columns(hp.n_q, hp.n_kv), qkv.columns(hp.n_q + hp.n_kv, hp.n_kv)
            x = g.add(x, g.linear(g.attend(i, q, k, v, rope=rope), b["attn_output"]))
            h = g.rms_norm(x, b["ffn_norm"])
            (both,) = g.compute("ffn", g.linear(h, b["ffn_up"]))
            gate, up = both.columns(0, hp.n_ff), both.columns(hp.n_ff, hp.n_ff)
            x = g.add(x, g.linear(g.gated(gate, up, "silu"), b["ffn_down"]))
        g.logits(g.linear(g.rms_norm(g.outputs(x), w["output_norm"]), w["output"]))
