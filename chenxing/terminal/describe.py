"""What `chenxing run --verbose` says of a loaded model before the first answer."""

from typing import TYPE_CHECKING

from chenxing.config import settings
from chenxing.cores import cores
from chenxing.hub.disk import human_bytes
from chenxing.memory import resident_bytes

if TYPE_CHECKING:
    from chenxing.llm import LLM


def describe(llm: "LLM", *, given_threads: int | None) -> list[str]:
    """Lines for stderr. given_threads: the number on the command line."""
    if given_threads is not None:
        why = "-t"
    elif settings().threads is not None:
        why = "CHENXING_THREADS"
    else:
        why = cores().why
    resident = resident_bytes()
    now = f", {human_bytes(resident)} in use now" if resident else ""
    return [
        f"{llm.path}: {llm.gguf.architecture}",
        f"kernels: {llm.isa}",
        f"threads: {llm.n_threads} ({why})",
        f"weights: {human_bytes(llm.weights_bytes)}, {llm.weights_origin}",
        f"context: {llm.n_ctx} tokens, trained for {llm.n_ctx_train}",
        f"memory: {human_bytes(llm.kv_bytes)} for the keys and values of a full context{now}",
    ]
