"""What an architecture file says: hyperparameters, tensors and the forward pass; and the registry of all of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from chenxing.errors import UnsupportedModelError
from chenxing.gguf import GGUF
from chenxing.models.rope import Rope


@dataclass(frozen=True)
class HParams:
    """The numbers of a model, in GGUF's terms.

    long_context   the context is longer than the original one of a model with LongRoPE, so that its long factors apply
    extra          what only some architectures have
    """

    n_layer: int
    n_embd: int
    n_head: int
    n_head_kv: int
    head_dim: int
    n_ff: int
    n_vocab: int
    n_ctx_train: int
    norm_eps: float
    rope: Rope
    long_context: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def n_q(self) -> int:
        """Columns of a query row: all heads."""
        return self.n_head * self.head_dim

    @property
    def n_kv(self) -> int:
        """Columns of a key or value row: all KV heads."""
        return self.n_head_kv * self.head_dim


@dataclass(frozen=True)
class TensorSpec:
    """A tensor that a model has. shape is rows first; kind is "matrix", "vector", "table" or "experts".

    optional    may be missing: the forward pass then sees None
    fallback    another tensor's name that serves where this one is missing (tied embeddings)
    rope_dims   n_rot of a projection whose heads are rotated in neighbouring pairs: its rows are packed so that the
                pairs lie n_rot / 2 apart, the only order that kernels know. Scores do not depend on the order.
    int8        pack a float type as int8 with the file's columns beside (quants/int8.py)
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    optional: bool = False
    fallback: str | None = None
    rope_dims: tuple[int, int] | None = None
    int8: bool = False


def matrix(name: str, n_out: int, n_in: int, **options: Any) -> TensorSpec:
    return TensorSpec(name, (n_out, n_in), "matrix", **options)


def vector(name: str, n: int, **options: Any) -> TensorSpec:
    return TensorSpec(name, (n,), "vector", **options)


def experts(name: str, n_expert: int, n_out: int, n_in: int) -> TensorSpec:
    return TensorSpec(name, (n_expert, n_out, n_in), "experts")


def embeddings(hp: HParams) -> Iterator[TensorSpec]:
    """Token table, last norm and output matrix, which most models tie to the table."""
    yield TensorSpec("token_embd.weight", (hp.n_vocab, hp.n_embd), "table")
    yield vector("output_norm.weight", hp.n_embd)
    yield matrix("output.weight", hp.n_vocab, hp.n_embd, fallback="token_embd.weight")


def qkv(hp: HParams, layer: str, *, pairs: bool = False) -> Iterator[TensorSpec]:
    """Projections to queries, keys and values, each with a bias if the file has it. pairs: neighbours are rotated."""
    dims = (hp.head_dim, hp.rope.n_rot) if pairs else None
    for name, n, rope_dims in (("q", hp.n_q, dims), ("k", hp.n_kv, dims), ("v", hp.n_kv, None)):
        yield matrix(f"{layer}attn_{name}.weight", n, hp.n_embd, rope_dims=rope_dims)
        yield vector(f"{layer}attn_{name}.bias", n, optional=True, rope_dims=rope_dims)


def gated_ffn(hp: HParams, layer: str) -> Iterator[TensorSpec]:
    yield matrix(layer + "ffn_gate.weight", hp.n_ff, hp.n_embd)
    yield matrix(layer + "ffn_up.weight", hp.n_ff, hp.n_embd)
    yield matrix(layer + "ffn_down.weight", hp.n_embd, hp.n_ff)


def gated_ffn_biases(hp: HParams, layer: str) -> Iterator[TensorSpec]:
    """Of the few files that have them."""
    yield vector(layer + "ffn_gate.bias", hp.n_ff, optional=True)
    yield vector(layer + "ffn_up.bias", hp.n_ff, optional=True)
    yield vector(layer + "ffn_down.bias", hp.n_embd, optional=True)


def expert_ffn(hp: HParams, layer: str, n_ff: int) -> Iterator[TensorSpec]:
    n_expert = hp.extra["n_expert"]
    yield matrix(layer + "ffn_gate_inp.weight", n_expert, hp.n_embd)
    yield experts(layer + "ffn_gate_exps.weight", n_expert, n_ff, hp.n_embd)
    yield experts(layer + "ffn_up_exps.weight", n_expert, n_ff, hp.n_embd)
    yield experts(layer + "ffn_down_exps.weight", n_expert, hp.n_embd, n_ff)


def rope_factors(hp: HParams) -> Iterator[TensorSpec]:
    """Divisors of the rotation's frequencies: Llama 3's, or LongRoPE's for long and for short contexts."""
    for name in ("rope_freqs", "rope_factors_long", "rope_factors_short"):
        yield vector(f"{name}.weight", hp.rope.n_rot // 2, optional=True)


def chosen_rope_factors(hp: HParams, w: Any) -> Any:
    """Those of rope_factors that apply, or None."""
    freqs = w.get("rope_freqs")
    return w.get("rope_factors_long" if hp.long_context else "rope_factors_short") if freqs is None else freqs


@dataclass(frozen=True)
class Architecture:
    name: str
    hparams: Callable[[GGUF], HParams]
    tensors: Callable[[HParams], Iterator[TensorSpec]]
    forward: Callable[[HParams, Any, Any], None]


ARCHITECTURES: dict[str, Architecture] = {}


def architecture(name: str) -> Callable[[type], type]:
    """Class decorator: register an architecture's three functions under GGUF's name."""

    def add(cls: Any) -> type:
        assert name not in ARCHITECTURES, name
        ARCHITECTURES[name] = Architecture(name, cls.hparams, cls.tensors, cls.forward)
        return cls

    return add


def find_architecture(model: GGUF) -> Architecture:
    """Raises UnsupportedModelError naming what is known and what the file holds."""
    name = model.architecture
    if name in ARCHITECTURES:
        return ARCHITECTURES[name]
    layer = sorted({t.split(".", 2)[-1] for t in model.tensors if t.startswith("blk.")})
    raise UnsupportedModelError(
        f"{model.path}: architecture {name!r} is not supported; known are {', '.join(sorted(ARCHITECTURES))}. "
        f"Its layers hold: {', '.join(layer) or 'nothing'}"
    )
