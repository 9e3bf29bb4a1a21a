"""Opening a model for a command, with the progress on stderr."""

import logging
import sys
import time
from typing import TYPE_CHECKING

from chenxing.terminal.echo import without_echo
from chenxing.terminal.progress import ProgressLine

if TYPE_CHECKING:
    from chenxing.engine import SpecOptions
    from chenxing.gguf import GGUF
    from chenxing.llm import LLM
    from chenxing.tokenizer import Tokenizer


def load_model(
    model: str,
    *,
    n_ctx: int,
    n_threads: int | None,
    kv_type: str = "f16",
    isa: str | None = None,
    weight_cache: bool = True,
    weights: str | None = None,
    disk_cache: bool = True,
    cache_disk_bytes: int | None = None,
    cache_ram_bytes: int | None = None,
    chat_template: str | None = None,
    speculation: "SpecOptions | None" = None,
) -> "tuple[LLM, float]":
    """The model and the milliseconds that it took. n_ctx 0 and n_threads None: what the model and the machine have."""
    from chenxing.llm import LLM

    if logging.lastResort:  # where nobody handles the package's warnings, they look like all that the command says
        logging.lastResort.setFormatter(logging.Formatter("chenxing: %(message)s"))
    progress = ProgressLine(sys.stderr)
    start = time.perf_counter()
    try:
        with without_echo():
            llm = LLM.load(
                model,
                n_ctx=n_ctx or None,
                n_threads=n_threads,
                isa=isa,
                weight_cache=weight_cache,
                weights=weights,
                disk_cache=disk_cache,
                cache_disk_bytes=cache_disk_bytes,
                cache_ram_bytes=cache_ram_bytes,
                chat_template=chat_template,
                kv_type=kv_type,
                speculation=speculation,
                on_progress=progress.update,
            )
    finally:
        progress.clear()
    return llm, (time.perf_counter() - start) * 1000


def open_vocabulary(model: str) -> "tuple[GGUF, Tokenizer]":
    """The file of a model and its tokenizer, without its weights."""
    from chenxing import hub
    from chenxing.gguf import open_gguf
    from chenxing.tokenizer import load_tokenizer

    progress = ProgressLine(sys.stderr)
    try:
        path = hub.resolve(model, on_progress=progress.update)
    finally:
        progress.clear()
    gguf = open_gguf(path)
    return gguf, load_tokenizer(gguf)
