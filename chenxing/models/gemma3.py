"""Gemma 3 (text): norms before and after each half of a layer, norms of every head, five window layers to one full.

Source  Gemma Team 2025; llama.cpp b11434 src/models/gemma3.cpp
"""

from dataclasses import replace

from chenxing.models.hparams import read_hparams, read_windows
from chenxing.models.spec import architecture, embeddings, gated_ffn, matrix, qkv, vector


@architecture("gemma3")
class Gemma3:
    @staticmethod
    def hparams(model):
        understood = {"attention.sliding_window", "final_logit_softcapping"}
        hp = read_hparams(model, understood, **read_windows(model, period=6))
        hp.extra["rope_base_swa"] = model.get("gemma3.rope.freq_base_swa", float, 10000.0)
        hp.extra["final_softcap"] = model.get("gemma3.final_logit_softcapping", float, 0.0)
        # the 27B model scales by the embedding's share of a head, the others by the head
        hp.extra["scale"] = ((hp.n_embd // hp.n_head) if hp.n_layer == 62 else hp.head_dim) ** -0.5
        return hp

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
            yield vector(p + "post_attention_norm.weight", hp.n_embd)
            yield vector(p + "ffn_norm.weight", hp.n_embd)
            yield from gated_ffn(hp, p)
            yield vector(p + "post_ffw_norm.weight", hp.n_embd)

    @staticmethod
    def forward(hp, w, g):
        full = {"rope": g.rope(hp.rope)}
        unscaled = replace(hp.rope, freq_base=hp.extra["rope_base_swa"], freq_scale=1.0, yarn=False, mscale=1.0)
        near = {"rope": g.rope(unscaled), "window": hp.extra["n_swa"]}
        x = g.embed(w["token_embd"], scale=hp.n_embd**0.5)
        for i in range(hp.n_layer):
            b = w.layer(i)
            h = g.rms_norm(x, b["attn_norm"])
            q, k, v = g.compute("qkv", *(g.linear(h, b[f"attn_{n}"], b.get(f"attn_{n}.bias")) for n in "qkv"))
            norms = {"q_norm": b["attn_q_norm"], "k_norm": b["attn_k_norm"]}
            reach = near if hp.extra["is_swa"][i] else full
            a = g.attend(i, q, k, v, scale=hp.extra["scale"], **norms, **reach)
            (h,) = g.compute("delta", g.linear(a, b["attn_output"]))
            x = g.add(x, g.rms_norm(h, b["post_attention_norm"]))
            h = g.rms_norm(x, b["ffn_norm"])
            gate, up = g.compute("ffn", g.linear(h, b["ffn_gate"]), g.linear(h, b["ffn_up"]))
            (h,) = g.compute("delta", g.linear(g.gated(gate, up, "gelu"), b["ffn_down"]))
            x = g.add(x, g.rms_norm(h, b["post_ffw_norm"]))
        last = g.rms_norm(g.outputs(x), w["output_norm"])
        g.logits(g.linear(last, w["output"]), softcap=hp.extra["final_softcap"])
