"""Gemma 2: norms before and after each half of a layer, soft caps, and a window in every other layer.

Source  Gemma Team 2024; llama.cpp b11434 src/models/gemma2.cpp
"""

from dataclasses import replace

from chenxing.models.hparams import read_hparams, read_windows
from chenxing.models.spec import architecture, embeddings, gated_ffn, matrix, qkv, vector


@architecture("gemma2")
class Gemma2:
    @staticmethod
    def hparams(model):
        understood = {"attention.sliding_window", "attn_logit_softcapping", "final_logit_softcapping"}
        hp = read_hparams(model, understood, **read_windows(model, n_swa=4096, period=2))
        hp.extra["rope_base_swa"] = model.get("gemma2.rope.freq_base_swa", float, hp.rope.freq_base)
        hp.extra["attn_softcap"] = model.get("gemma2.attn_logit_softcapping", float, 50.0)
        hp.extra["final_softcap"] = model.get("gemma2.final_logit_softcapping", float, 30.0)
        # the 27B model scales by the embedding's share of a head, the others by the head
        hp.extra["scale"] = ((hp.n_embd // hp.n_head) if hp.n_layer == 46 else hp.head_dim) ** -0.5
        return hp

    @staticmethod
    def tensors(hp):
        yield from embeddings(hp)
        for i in range(hp.n_layer):
            p = f"blk.{i}."
            yield vector(p + "attn_norm.weight", hp.n_embd)
            yield from qkv(hp, p)
            yield matrix(p + "attn_output.weight", hp.n_embd, hp.n_q)
            yield vector(p + "post_attention_norm.weight", hp.n_embd)
            yield vector(p + "ffn_norm.weight", hp.n_embd)
            yield from gated_ffn(hp, p)
            yield vector(p + "post_ffw_norm.weight", hp.n_embd)

    @staticmethod
    def forward(hp, w, g):
        full = {"rope": g.rope(hp.rope)}
        near = {"rope": g.rope(replace(hp.rope, freq_base=hp.extra["rope_base_swa"])), "window": hp.extra["n_swa"]}
        score = {"scale": hp.extra["scale"], "softcap": hp.extra["attn_softcap"]}
        x = g.embed(w["token_embd"], scale=hp.n_embd**0.5)
        for i in range(hp.n_layer):
            b = w.layer(i)
            h = g.rms_norm(x, b["attn_norm"])
            q, k, v = g.compute("qkv", *(g.linear(h, b[f"attn_{n}"], b.get(f"attn_{n}.bias")) for n in "qkv"))
            a = g.attend(i, q, k, v, **score, **(near if hp.extra["is_swa"][i] else full))
            (h,) = g.compute("delta", g.linear(a, b["attn_output"]))
            x = g.add(x, g.rms_norm(h, b["post_attention_norm"]))
            h = g.rms_norm(x, b["ffn_norm"])
            gate, up = g.compute("ffn", g.linear(h, b["ffn_gate"]), g.linear(h, b["ffn_up"]))
            (h,) = g.compute("delta", g.linear(g.gated(gate, up, "gelu"), b["ffn_down"]))
            x = g.add(x, g.rms_norm(h, b["post_ffw_norm"]))
        last = g.rms_norm(g.outputs(x), w["output_norm"])
        g.logits(g.linear(last, w["output"]), softcap=hp.extra["final_softcap"])
