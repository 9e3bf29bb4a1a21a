"""OLMo 2 and 3: norms after each half of a layer instead of before, and of whole query and key rows.

OLMo 3 adds windows in three layers of four, where YaRN does not apply.

Source  OLMo Team 2025; llama.cpp b11434 src/models/olmo2.cpp
"""

from dataclasses import replace

from chenxing.models.hparams import read_hparams, read_windows
from chenxing.models.spec import architecture, embeddings, gated_ffn, matrix, qkv, vector


@architecture("olmo2")
class Olmo2:
    @staticmethod
    def hparams(model):
        return read_hparams(model, {"attention.sliding_window"}, **read_windows(model, period=4))

    @staticmethod
    def tensors(hp):
        yield from embeddings(hp)
        for i in range(hp.n_layer):
            p = f"blk.{i}."
            yield from qkv(hp, p)
            yield vector(p + "attn_q_norm.weight", hp.n_q)
            yield vector(p + "attn_k_norm.weight", hp.n_kv)
            yield matrix(p + "attn_output.weight", hp.n_embd, hp.n_q)
            yield vector(p + "post_attention_norm.weight", hp.n_embd)
            yield from gated_ffn(hp, p)
            yield vector(p + "post_ffw_norm.weight", hp.n_embd)

    @staticmethod
    def forward(hp, w, g):
        full = {"rope": g.rope(hp.rope)}
        unscaled = replace(hp.rope, freq_scale=1.0, yarn=False, mscale=1.0)
        near = {"rope": g.rope(unscaled), "window": hp.extra["n_swa"]}
        x = g.embed(w["token_embd"])
        for i in range(hp.n_layer):
            b = w.layer(i)
            q, k, v = g.compute("qkv", *(g.linear(x, b[f"attn_{n}"], b.get(f"attn_{n}.bias")) for n in "qkv"))
            q, k = g.normed_rows(q, b["attn_q_norm"]), g.normed_rows(k, b["attn_k_norm"])
            a = g.attend(i, q, k, v, **(near if hp.extra["is_swa"][i] else full))
            (h,) = g.compute("delta", g.linear(a, b["attn_output"]))
            x = g.add(x, g.rms_norm(h, b["post_attention_norm"]))
            gate, up = g.compute("ffn", g.linear(x, b["ffn_gate"]), g.linear(x, b["ffn_up"]))
            (h,) = g.compute("delta", g.linear(g.gated(gate, up, "silu"), b["ffn_down"]))
            x = g.add(x, g.rms_norm(h, b["post_ffw_norm"]))
        g.logits(g.linear(g.rms_norm(g.outputs(x), w["output_norm"]), w["output"]))
