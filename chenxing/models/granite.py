"""Granite 3, dense: Llama with scales on embeddings, scores, residuals and logits.

Source  Granite Team 2024; llama.cpp b11434 src/models/granite.cpp
"""

from chenxing.errors import ModelFileError
from chenxing.models.hparams import read_hparams
from chenxing.models.spec import (
    architecture,
    chosen_rope_factors,
    embeddings,
    gated_ffn,
    gated_ffn_biases,
    matrix,
    qkv,
    rope_factors,
    vector,
)


@architecture("granite")
class Granite:
    @staticmethod
    def hparams(model):
        hp = read_hparams(model, {"attention.scale", "embedding_scale", "logit_scale", "residual_scale"})
        hp.extra["scale"] = model.get("granite.attention.scale", float, 0.0) or None  # None: by the head, as usual
        hp.extra["embedding_scale"] = model.get("granite.embedding_scale", float, 0.0) or 1.0
        hp.extra["residual_scale"] = model.get("granite.residual_scale", float, 0.0) or 1.0
        divisor = model.require("granite.logit_scale", float)
        if not divisor:
            raise ModelFileError(model.path, "granite.logit_scale", "a divisor of logits", "0")
        hp.extra["logit_scale"] = 1.0 / divisor
        # the key is this family's switch of rotation
        hp.extra["has_rope"] = model.get("granite.rope.scaling.finetuned", bool, True)
        return hp

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
            yield from gated_ffn(hp, p)
            yield from gated_ffn_biases(hp, p)

    @staticmethod
    def forward(hp, w, g):
        rope = g.rope(hp.rope, chosen_rope_factors(hp, w)) if hp.extra["has_rope"] else None
        residual = hp.extra["residual_scale"]
        x = g.embed(w["token_embd"], scale=hp.extra["embedding_scale"])
        for i in range(hp.n_layer):
            b = w.layer(i)
            h = g.rms_norm(x, b["attn_norm"])
            q, k, v = g.compute("qkv", *(g.linear(h, b[f"attn_{n}"], b.get(f"attn_{n}.bias")) for n in "qkv"))
            a = g.attend(i, q, k, v, rope=rope, scale=hp.extra["scale"])
            x = g.add(x, g.linear(a, b["attn_output"], b.get("attn_output.bias")), scale=residual)
            h = g.rms_norm(x, b["ffn_norm"])
            gate, up = g.compute("ffn", *(g.linear(h, b[f"ffn_{n}"], b.get(f"ffn_{n}.bias")) for n in ("gate", "up")))
            x = g.add(x, g.linear(g.gated(gate, up, "silu"), b["ffn_down"], b.get("ffn_down.bias")), scale=residual)
        last = g.rms_norm(g.outputs(x), w["output_norm"])
        g.logits(g.linear(last, w["output"]), scale=hp.extra["logit_scale"])
