"""Llama and its relatives under the same name: Mistral, SmolLM, Llama 2 and 3, and many fine-tunes.

Source  Touvron 2023; llama.cpp b11434 src/models/llama.cpp
"""

from chenxing.models.spec import architecture, embeddings, matrix, read_hparams, vector


@architecture("llama")
class Llama:
    @staticmethod
    def hparams(model):
        return read_hparams(model)

    @staticmethod
    def tensors(hp):
        yield from embeddings(hp)
        yield vector("rope_freqs.weight", hp.rope.n_rot // 2, optional=True)
        pairs = (hp.head_dim, hp.rope.n_rot)
        for i in range(hp.n_layer):
            p = f"blk.{i}."
            yield vector(p + "attn_norm.weight", hp.n_embd)
            yield matrix(p + "attn_q.weight", hp.n_q, hp.n_embd, rope_dims=pairs)
            yield matrix(p + "attn_k.weight", hp.n_kv, hp.n_embd, rope_dims=pairs)
            yield matrix(p + "attn_v.weight", hp.n_kv, hp.n_embd)
            yield matrix(p + "attn_output.weight", hp.n_embd, hp.n_q)
            yield vector(p + "ffn_norm.weight", hp.n_embd)
            yield matrix(p + "ffn_gate.weight", hp.n_ff, hp.n_embd)
            yield matrix(p + "ffn_up.weight", hp.n_ff, hp.n_embd)
            yield matrix(p + "ffn_down.weight", hp.n_embd, hp.n_ff)

    @staticmethod
    def forward(hp, w, g):
        rope = g.rope(hp.rope, w.get("rope_freqs"))
        x = g.embed(w["token_embd"])
        for i in range(hp.n_layer):
            b = w.layer(i)
            h = g.rms_norm(x, b["attn_norm"])
            q, k, v = g.compute("qkv", *(g.linear(h, b[f"attn_{name}"]) for name in "qkv"))
            a = g.attend(i, q, k, v, rope=rope)
            x = g.add(x, g.linear(a, b["attn_output"]))
            h = g.rms_norm(x, b["ffn_norm"])
            gate, up = g.compute("ffn", g.linear(h, b["ffn_gate"]), g.linear(h, b["ffn_up"]))
            x = g.add(x, g.linear(g.gated(gate, up, "silu"), b["ffn_down"]))
        g.logits(g.linear(g.rms_norm(g.outputs(x), w["output_norm"]), w["output"]))
