"""What an architecture file says: hyperparameters, tensors and the forward pass; and the registry of all of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from chenxing.errors import ModelFileError, UnsupportedModelError
from chenxing.gguf import GGUF
from chenxing.models.rope import Rope, magnitude


@dataclass(frozen=True)
class HParams:
    """The numbers of a model, in GGUF's terms. `extra` holds what only one architecture has."""

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
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    optional: bool = False
    fallback: str | None = None
    rope_dims: tuple[int, int] | None = None


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


def read_hparams(model: GGUF, **extra: Any) -> HParams:
    """The keys that all decoder architectures share. Raises ModelFileError for missing or contradicting ones."""
    arch = model.architecture

    def count(key: str, default: int | None = None) -> int:
        value = model.metadata.get(f"{arch}.{key}")
        if hasattr(value, "tolist"):  # one value a layer
            values = set(value.tolist())
            if len(values) != 1:
                raise UnsupportedModelError(f"{model.path}: {arch}.{key} differs from layer to layer: {sorted(values)}")
            return int(values.pop())
        found = model.get(f"{arch}.{key}", int) if default is None else model.get(f"{arch}.{key}", int, default)
        return model.require(f"{arch}.{key}", int) if found is None else found

    n_embd, n_head = count("embedding_length"), count("attention.head_count")
    if n_head < 1 or n_embd < 1:
        raise ModelFileError(model.path, f"{arch}.attention.head_count", "at least 1", str(n_head))
    head_dim = count("attention.key_length", n_embd // n_head)
    n_head_kv = count("attention.head_count_kv", n_head)
    if n_head_kv < 1 or n_head % n_head_kv:
        raise ModelFileError(
            model.path, f"{arch}.attention.head_count_kv", f"a divisor of {n_head} heads", str(n_head_kv)
        )
    if count("attention.value_length", head_dim) != head_dim:
        raise UnsupportedModelError(f"{model.path}: keys and values of different lengths are not supported")
    if n_embd % 32:
        raise UnsupportedModelError(f"{model.path}: {arch}.embedding_length {n_embd} is no multiple of 32")
    table = model.tensors.get("token_embd.weight")
    if table is None:
        raise ModelFileError(
            model.path, "tensor token_embd.weight", "a token table", "none", "The file holds a vocabulary only"
        )
    return HParams(
        n_layer=count("block_count"),
        n_embd=n_embd,
        n_head=n_head,
        n_head_kv=n_head_kv,
        head_dim=head_dim,
        n_ff=count("feed_forward_length", 0),
        n_vocab=table.shape[0],
        n_ctx_train=count("context_length"),
        norm_eps=model.require(f"{arch}.attention.layer_norm_rms_epsilon", float),
        rope=read_rope(model, head_dim),
        extra=extra,
    )


def read_rope(model: GGUF, head_dim: int) -> Rope:
    """The rotation that the file's rope.* keys describe."""
    arch = model.architecture
    kind = model.get(f"{arch}.rope.scaling.type", str, "linear")
    if kind not in ("none", "linear", "yarn", "longrope"):
        raise UnsupportedModelError(
            f"{model.path}: {arch}.rope.scaling.type is {kind!r}; known are none, linear, yarn, longrope"
        )
    factor = model.get(f"{arch}.rope.scaling.factor", float, 0.0) or model.get(f"{arch}.rope.scale_linear", float, 0.0)
    if not factor or kind == "none":
        factor = 1.0
    n_rot = model.get(f"{arch}.rope.dimension_count", int, head_dim)
    if not 0 < n_rot <= head_dim or n_rot % 2:
        raise ModelFileError(model.path, f"{arch}.rope.dimension_count", f"an even number up to {head_dim}", str(n_rot))
    n_ctx = model.require(f"{arch}.context_length", int)
    return Rope(
        n_rot=n_rot,
        freq_base=model.get(f"{arch}.rope.freq_base", float, 10000.0),
        freq_scale=1.0 / factor,
        yarn=kind == "yarn",
        n_ctx_orig=model.get(f"{arch}.rope.scaling.original_context_length", int, 0) or n_ctx,
        mscale=(magnitude(factor) if kind == "yarn" else 1.0)
        * model.get(f"{arch}.rope.scaling.attn_factor", float, 1.0),
    )
