"""Llama and its relatives under the same name: Mistral, Mixtral, SmolLM, Llama 2 and 3, and many fine-tunes.

Source  Touvron 2023 (Llama), Jiang 2023 (Mistral's window), Jiang 2024 (Mixtral); llama.cpp b11434 src/models/llama.cpp
"""

from chenxing.models.hparams import read_experts, read_hparams, read_windows
from chenxing.models.spec import (
    architecture,
    chosen_rope_factors,
    embeddings,
    expert_ffn,
    gated_ffn,
    gated_ffn_biases,
    matrix,
    qkv,
    rope_factors,
    vector,
)


@architecture("llama")
class Llama:
    @staticmethod
    def hparams(model):
        understood = {"attention.sliding_window", "expert_count"}
        return read_hparams(model, understood, **read_windows(model, period=0), **read_experts(model))

    @staticmethod
    def tensors(hp):
        yield from embeddings(hp)
        yield from rope_factors(hp)
        for i in range(hp.n_layer):
            p = f"blk.{i}."
            yield vector(p + "attn_norm.weight", hp.n_embd)
            yield from qkv(hp, p, pairs=True)
            yield matrix(p + "attn_output.weight", hp.n_embd, hp.n_q)
            yield vector(p + "attn_output.bias", hp.n_embd, optional=True)
            yield vector(p + "ffn_norm.weight", hp.n_embd)
            if hp.extra["n_expert"]:
                yield from expert_ffn(hp, p, hp.n_ff)
            else:
                yield from gated_ffn(hp, p)
                yield from gated_ffn_biases(hp, p)

    @staticmethod
    def forward(hp, w, g):
        rope = g.rope(hp.rope, chosen_rope_factors(hp, w))
        x = g.embed(w["token_embd"])
        for i in range(hp.n_layer):
            b = w.layer(i)
            h = g.rms_norm(x, b["attn_norm"])
            q, k, v = g.compute("qkv", *(g.linear(h, b[f"attn_{n}"], b.get(f"attn_{n}.bias")) for n in "qkv"))
            a = g.attend(i, q, k, v, rope=rope, window=hp.extra["n_swa"] if hp.extra["is_swa"][i] else None)
            x = g.add(x, g.linear(a, b["attn_output"], b.get("attn_output.bias")))
            h = g.rms_norm(x, b["ffn_norm"])
            if hp.extra["n_expert"]:
                banks = (b[f"ffn_{name}"] for name in ("gate_inp", "gate_exps", "up_exps", "down_exps"))
                x = g.add_experts(x, g.experts(h, *banks, hp.extra["n_expert_used"], "silu"))
            else:
                products = (g.linear(h, b[f"ffn_{n}"], b.get(f"ffn_{n}.bias")) for n in ("gate", "up"))
                gate, up = g.compute("ffn", *products)
                x = g.add(x, g.linear(g.gated(gate, up, "silu"), b["ffn_down"], b.get("ffn_down.bias")))
        g.logits(g.linear(g.rms_norm(g.outputs(x), w["output_norm"]), w["output"]))
