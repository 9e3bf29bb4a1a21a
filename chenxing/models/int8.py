"""Which matrices LLM.int8() takes: the projections of attention and of the feed-forward layers, where they are floats.

The embedding, the output matrix and routers stay as they are, as in the paper: they are not where the time goes, and
logits and the choice of experts come straight from them.
Source  Dettmers et al. 2022, section 3
"""

from collections.abc import Sequence
from dataclasses import replace

from chenxing.errors import UnsupportedModelError
from chenxing.gguf import GGUF
from chenxing.models.packed_stream import source_name
from chenxing.models.spec import TensorSpec
from chenxing.quants import GGML_TYPES, INT8

_WIDTH = 32  # weights of a row that are multiplied together
_MAX_WIDTH = (2**31 - 1) // 127**2  # beyond it the sums of products might not fit in 32 bits


def with_int8(model: GGUF, specs: Sequence[TensorSpec]) -> list[TensorSpec]:
    """The specs, with those matrices marked. Raises UnsupportedModelError if there is none."""
    marked = [replace(spec, int8=_is_taken(model, spec)) for spec in specs]
    if not any(spec.int8 for spec in marked):
        types = {GGML_TYPES[t.ggml_type].name for name, t in model.tensors.items() if name.startswith("blk.")}
        raise UnsupportedModelError(
            f"{model.path}: int8 weights are made of {', '.join(INT8)}: expected such matrices, "
            f"found {', '.join(sorted(types)) or 'none'}; quantised files run as they are"
        )
    return marked


def _is_taken(model: GGUF, spec: TensorSpec) -> bool:
    if spec.kind not in ("matrix", "experts") or not spec.name.startswith("blk.") or "ffn_gate_inp" in spec.name:
        return False
    kind = GGML_TYPES[model.tensors[source_name(model, spec)].ggml_type].name
    width = spec.shape[-1]
    return kind in INT8 and width % _WIDTH == 0 and width <= _MAX_WIDTH
