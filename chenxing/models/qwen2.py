"""Qwen 2 and 2.5: Llama with biases on queries, keys and values, and halves rotated.

Source  Yang 2024; llama.cpp b11434 src/models/qwen2.cpp
"""

from chenxing.models.hparams import read_hparams
from chenxing.models.spec import architecture, embeddings, gated_ffn, matrix, qkv, vector


@architecture("qwen2")
class Qwen2:
    @staticmethod
    def hparams(model):
        return read_hparams(model)

    @staticmethod
    def tensors(hp):
        yield from embeddings(hp)
        yield vector("output.bias", hp.n_vocab, optional=True)
        for i in range(hp.n_layer):
            p = f"blk.{i}."
            yield vector(p + "attn_norm.weight", hp.n_embd)
            yield from qkv(hp, p)
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
            x = g.add(x, g.linear(g.attend(i, q, k, v, rope=rope), b["attn_output"]))
            h = g.rms_norm(x, b["ffn_norm"])
            gate, up = g.compute("ffn", g.linear(h, b["ffn_gate"]), g.linear(h, b["ffn_up"]))
            x = g.add(x, g.linear(g.gated(gate, up, "silu"), b["ffn_down"]))
        last = g.rms_norm(g.outputs(x), w["output_norm"])
        g.logits(g.linear(last, w["output"], w.get("output.bias")))
