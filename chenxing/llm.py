"""The public Python API: a model that is loaded once and answers.

from chenxing import LLM

llm = LLM.load("smollm2")
for piece in llm.stream("Why is the sky blue?"):
    print(piece, end="", flush=True)
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from chenxing import hub
from chenxing.chat import ChatTemplate, load_template
from chenxing.config import settings
from chenxing.cores import cores
from chenxing.engine import N_SLOTS, Engine, Generation
from chenxing.errors import UsageError
from chenxing.gguf import GGUF, open_gguf
from chenxing.kernels.attention_layout import KV_TYPES
from chenxing.kernels.layout import PAGE
from chenxing.kernels.library import KernelLibrary, host_isa
from chenxing.models.model import page_bytes, read_model
from chenxing.sampling import Sampler, SamplingParams
from chenxing.tokenizer import Tokenizer, load_tokenizer

Message = dict[str, Any]


class LLM:
    """A loaded model. Use as a context manager, or `close` it: its threads are the process's.

    Not thread-safe: one generation at a time; starting another one ends the one before.

    path, gguf          the model file
    tokenizer           text to ids and back
    template            the chat template, None for a base model, which completes raw text
    n_ctx, n_ctx_train  tokens of context here, and as the model was trained
    sampling_defaults   the model's recommended parameters, llama.cpp's where it has none
    weights_bytes       of packed weights
    weights_origin      where they are from, in words
    kv_bytes            of the keys and values of a full context
    notices             what a user should know about this model, in sentences
    """

    def __init__(self, gguf: GGUF, engine: Engine, tokenizer: Tokenizer, template: ChatTemplate | None) -> None:
        self.gguf, self.path = gguf, gguf.path
        self.tokenizer, self.template = tokenizer, template
        self.sampling_defaults = SamplingParams.from_metadata(gguf.metadata)
        self._engine = engine
        self.n_ctx, self.n_ctx_train = engine.n_ctx, engine.hp.n_ctx_train
        self.n_vocab = engine.hp.n_vocab
        self.n_threads, self.isa = engine.n_threads, engine.isa
        weights = engine.model.weights
        self.weights_bytes, self.weights_origin = weights.n_bytes, weights.origin
        self.kv_bytes = -(-self.n_ctx // PAGE) * page_bytes(engine.hp, engine.kv_type)
        self.notices: list[str] = weights.notices
        self._current: Generation | None = None

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        n_ctx: int | None = None,
        n_threads: int | None = None,
        isa: str | None = None,
        weight_cache: bool = True,
        chat_template: str | None = None,
        kv_type: str = "f16",
        n_slots: int = N_SLOTS,
        on_progress: Callable[[str, float], None] | None = None,
    ) -> "LLM":
        """Load a path, a pulled model's name, hf:owner/repo[:QUANT], or a built-in name, which is pulled if need be.

        n_ctx          tokens of context; the model's own by default. Memory is taken as it fills.
        n_threads      the physical performance cores that this process may use, by default
        isa            instruction set of the kernels, such as "avx2"; the best one of this CPU by default
        weight_cache   False packs the weights in memory: no packed file is looked for or written
        chat_template  name of a template or Jinja source, instead of the file's own
        kv_type        how keys and values are kept: f16, bf16, f32, or q8_0, which takes half of f16's memory
        n_slots        answers that run at the same time, for those who drive the engine
        on_progress    called with a stage ("download", "compile kernels ...", "pack weights") and a fraction 0..1

        Raises ModelNotFoundError, ModelFileError, UnsupportedModelError, DownloadError, UsageError, KernelError.
        """
        if kv_type not in KV_TYPES:
            raise UsageError(f"kv_type: expected one of {', '.join(KV_TYPES)}, found {kv_type!r}")
        gguf = open_gguf(hub.resolve(str(model), on_progress=on_progress))
        if n_ctx is not None and n_ctx < 0:
            raise UsageError(f"n_ctx: expected at least 1, or 0 for the model's own, found {n_ctx}")
        hp = read_model(gguf, n_ctx)
        n_ctx = n_ctx or hp.n_ctx_train
        n_threads = n_threads or settings().threads or cores().n_threads
        if not 1 <= n_threads <= 256:
            raise UsageError(f"n_threads: expected 1 to 256, found {n_threads}")
        library = KernelLibrary(host_isa(isa))
        tokenizer = load_tokenizer(gguf)
        template = load_template(
            gguf.metadata,
            bos=_text(tokenizer, tokenizer.bos_id),
            eos=_text(tokenizer, tokenizer.eos_id),
            special_texts=tokenizer.special_texts,
            override=chat_template,
        )
        engine = Engine(
            gguf, hp, n_ctx, library, n_threads, on_progress, kv_type, weight_cache=weight_cache, n_slots=n_slots
        )
        return cls(gguf, engine, tokenizer, template)

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Token ids of text; see Tokenizer.encode."""
        return self.tokenizer.encode(text, add_special=add_special, parse_special=parse_special)

    def detokenize(self, ids: Sequence[int]) -> str:
        """The text of ids; bytes that are no UTF-8 become U+FFFD."""
        return self.tokenizer.decode(ids).decode(errors="replace")

    def stream(
        self,
        prompt: str | list[Message],
        *,
        params: SamplingParams | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        raw: bool = False,
        on_prefill: Callable[[int, int], None] | None = None,
        **template_kwargs: Any,
    ) -> Generation:
        """Start an answer; iterate for its text.

        prompt       a user's message, or a list of messages; raw text if `raw` or if the model has no template
        max_tokens   at most; None: until the model ends or the context is full
        stop         strings that end the answer and are not part of it
        on_prefill   called with tokens done and tokens of the prompt
        Further arguments go to the chat template (tools, documents, enable_thinking, ...).

        Raises ContextError when the prompt does not fit, TemplateError, UsageError.
        """
        if max_tokens is not None and max_tokens < 0:
            raise UsageError(f"max_tokens: expected at least 0, found {max_tokens}")
        ids = self.prompt_ids(prompt, raw=raw, **template_kwargs)
        self._engine.check_fits(ids)
        sampler = Sampler(
            params or self.sampling_defaults,
            self.n_vocab,
            token_text=self.tokenizer.token_bytes,
            eog_ids=self.tokenizer.eog_ids,
            prompt=ids,
        )
        if self._current:
            self._current.cancel()
        self._current = Generation(
            self._engine, self.tokenizer, sampler, ids, max_tokens=max_tokens, stop=stop, on_prefill=on_prefill
        )
        return self._current

    def generate(self, prompt: str | list[Message], **options: Any) -> Generation:
        """As `stream`, run to the end: the answer is in `.text`."""
        return self.stream(prompt, **options).drain()

    def chat(self, messages: list[Message], **options: Any) -> Generation:
        """The answer to a list of messages, run to the end."""
        return self.generate(messages, **options)

    def prompt_ids(self, prompt: str | list[Message], *, raw: bool = False, **template_kwargs: Any) -> list[int]:
        """The token ids that `stream` would compute for this prompt."""
        if raw or self.template is None:
            if not isinstance(prompt, str):
                raise UsageError(f"{self.path.name} has no chat template: it completes a text, not a list of messages")
            ids = self.tokenizer.encode(prompt, parse_special=True)
        else:
            messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
            text = self.template.render(messages, **template_kwargs)
            ids = self.tokenizer.encode(text.text, add_special=not text.has_bos, parse_special=True, guard=text.guard)
        if not ids:
            raise UsageError("the prompt is empty")
        return ids

    def logits(self, ids: Sequence[int], first: int = 0) -> np.ndarray:
        """f32[len(ids) - first, n_vocab]: logits after each of ids[first:], in a context of their own.

        Raises UsageError for ids outside of the vocabulary, ContextError for too many.
        """
        if not ids or not 0 <= first < len(ids) or min(ids) < 0 or max(ids) >= self.n_vocab:
            raise UsageError(f"logits: expected token ids from 0 to {self.n_vocab - 1} and first among them")
        return self._engine.logits(ids, first)

    @property
    def engine(self) -> Engine:
        """What serves its requests: for those who have many at once."""
        return self._engine

    def close(self) -> None:
        """Stop the threads. The model cannot be used afterwards."""
        self._engine.close()

    def __enter__(self) -> "LLM":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _text(tokenizer: Tokenizer, token_id: int | None) -> str:
    return "" if token_id is None else tokenizer.token_bytes(token_id).decode(errors="replace")
