"""From what a user wants to what drafts. A draft model must have the vocabulary of the model that it drafts for."""

from dataclasses import dataclass

from chenxing import hub
from chenxing.engine.cache_room import CacheRoom
from chenxing.engine.speculation.draft_model import DraftModel
from chenxing.engine.speculation.drafter import Drafter
from chenxing.engine.speculation.ngram import NGramDrafter
from chenxing.engine.speculation.options import SpecOptions
from chenxing.engine.speculation.speculation import Speculation
from chenxing.errors import ModelFileError
from chenxing.gguf import GGUF, open_gguf
from chenxing.kernels.cut import Cut
from chenxing.kernels.library import KernelLibrary, Progress
from chenxing.models import load_model
from chenxing.models.fingerprint import kv_fingerprint
from chenxing.models.model import page_bytes, read_model
from chenxing.tokenizer import Tokenizer, load_tokenizer

KV_TYPE = "f16"


@dataclass(frozen=True)
class Host:
    """What a draft model shares with the model that it drafts for: context, kernels, threads, room for KV, ends."""

    tokenizer: Tokenizer
    n_ctx: int
    library: KernelLibrary
    n_threads: int
    cache: CacheRoom
    weight_cache: bool = True
    cut: Cut | None = None


def load_speculation(options: SpecOptions, host: Host, on_progress: Progress | None = None) -> Speculation | None:
    """None if there is to be none. Raises what load_draft_model and finding the model raise."""
    if options.kind == "none":
        return None
    drafter: Drafter
    if options.model_draft is None:
        drafter = NGramDrafter()
    else:
        gguf = open_gguf(hub.resolve(options.model_draft, on_progress=on_progress))
        drafter = load_draft_model(gguf, host, on_progress)
    return Speculation(drafter, options.spec_draft_n_max, options.spec_draft_n_min)


def load_draft_model(gguf: GGUF, host: Host, on_progress: Progress | None = None) -> DraftModel:
    """Raises ModelFileError for another vocabulary, and what loading a model raises.

    Its context is the host's, but no longer than it was trained for.
    """
    n_vocab = check_vocabulary(gguf, load_tokenizer(gguf), host.tokenizer)
    n_ctx = min(host.n_ctx, read_model(gguf).n_ctx_train)
    hp = read_model(gguf, n_ctx)
    n_vocab = min(n_vocab, hp.n_vocab)
    model = load_model(
        gguf, hp, host.library, host.n_threads, on_progress, KV_TYPE, weight_cache=host.weight_cache, cut=host.cut
    )
    cache = host.cache.open(page_bytes(hp, KV_TYPE), n_ctx, kv_fingerprint(gguf, model, KV_TYPE))
    return DraftModel(model, cache, n_ctx, n_vocab)


def check_vocabulary(gguf: GGUF, tokenizer: Tokenizer, expected: Tokenizer) -> int:
    """-> tokens that both know. Raises ModelFileError if one of them is not the same in both."""
    n = min(tokenizer.n_vocab, expected.n_vocab)
    if tokenizer.key != expected.key:
        hint = "A draft model must have the vocabulary of the model that it drafts for"
        for token in range(n):
            found, wanted = tokenizer.token_bytes(token), expected.token_bytes(token)
            if found != wanted:
                raise ModelFileError(gguf.path, f"token {token}", repr(wanted), repr(found), hint)
    return n
