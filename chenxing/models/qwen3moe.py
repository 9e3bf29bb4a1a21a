"""Qwen 3 with a mixture of experts instead of every feed-forward network.

Source  Yang 2025; llama.cpp b11434 src/models/qwen3moe.cpp
"""

from chenxing.errors import ModelFileError
from chenxing.models.hparams import read_experts, read_hparams
from chenxing.models.spec import architecture, embeddings, expert_ffn, matrix, qkv, vector


@architecture("qwen3moe")
class Qwen3Moe:
    @staticmethod
    def hparams(model):
        counts = read_experts(model)
        if not counts["n_expert"]:
            raise ModelFileError(model.path, "qwen3moe.expert_count", "at least one expert", "none")
        hp = read_hparams(model, {"expert_count"}, **counts)
        share = hp.n_ff // counts["n_expert_used"]  # of a dense network's hidden units
        hp.extra["n_ff"] = model.get("qwen3moe.expert_feed_forward_length", int, 0) or share
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
            yield vector(p + "ffn_norm.weight", hp.n_embd)
            yield from expert_ffn(hp, p, hp.extra["n_ff"])

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
            banks = (b[f"ffn_{name}"] for name in ("gate_inp", "gate_exps", "up_exps", "down_exps"))
            x = g.add_experts(x, g.experts(h, *banks, hp.extra["n_expert_used"], "silu"))
        g.logits(g.linear(g.rms_norm(g.outputs(x), w["output_norm"]), w["output"]))
