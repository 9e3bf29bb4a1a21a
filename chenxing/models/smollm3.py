"""SmolLM 3: Llama without positions in every fourth layer.

Source  Bakouch 2025 (SmolLM3), Yang 2025 (RoPE to NoPE and back again); llama.cpp b11434 src/models/smollm3.cpp
"""

from chenxing.models.hparams import read_hparams
from chenxing.models.spec import architecture, embeddings, gated_ffn, matrix, qkv, vector

NOPE_PERIOD = 4  # of which the last layer rotates nothing


@architecture("smollm3")
class SmolLM3:
    @staticmethod
    def hparams(model):
        return read_hparams(model)

    @staticmethod
    def tensors(hp):
        yield from embeddings(hp)
        for i in range(hp.n_layer):
            p = f"blk.{i}."
            yield vector(p + "attn_norm.weight", hp.n_embd)
            yield from qkv(hp, p, pairs=True)
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
            a = g.attend(i, q, k, v, rope=None if i % NOPE_PERIOD == NOPE_PERIOD - 1 else rope)
            x = g.add(x, g.linear(a, b["attn_output"]))
            h = g.rms_norm(x, b["ffn_norm"])
            gate, up = g.compute("ffn", g.linear(h, b["ffn_gate"]), g.linear(h, b["ffn_up"]))
            x = g.add(x, g.linear(g.gated(gate, up, "silu"), b["ffn_down"]))
        g.logits(g.linear(g.rms_norm(g.outputs(x), w["output_norm"]), w["output"]))
