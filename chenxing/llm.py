"""The public Python API: a model that is loaded once and answers.

from chenxing import LLM

llm = LLM.load("smollm2")
for piece in llm.stream("Why is the sky blue?"):
    print(piece, end="", flush=True)
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from chenxing import hub
from chenxing.chat import ChatTemplate, Prompt, load_template
from chenxing.chat.spelling import shown_ids, spellings_of
from chenxing.chat.turns import Turns
from chenxing.config import settings
from chenxing.cores import cores
from chenxing.engine import N_SLOTS, CacheRoom, Engine, Generation, SpecOptions
from chenxing.engine.speculation.load import Host, load_speculation
from chenxing.errors import UsageError
from chenxing.gguf import GGUF, open_gguf
from chenxing.kernels.attention_layout import KV_TYPES
from chenxing.kernels.cut import Cut
from chenxing.kernels.layout import PAGE
from chenxing.kernels.library import KernelLibrary, host_isa
from chenxing.kvcache import CacheStats
from chenxing.models.model import N_BATCH, page_bytes, read_model
from chenxing.sampling import Constraint, Sampler, SamplingParams
from chenxing.tokenizer import Tokenizer, load_tokenizer, utf8

if TYPE_CHECKING:
    from chenxing.sampling.grammar import Grammars

Message = dict[str, Any]
WEIGHTS = ("int8",)  # how weights may be kept instead of as their file has them


class LLM:
    """A loaded model. Use as a context manager, or `close` it: its threads are the process's.

    Not thread-safe: one generation at a time; starting another one ends the one before. What turns texts into tokens
    may be used by several threads: `tokenize`, `detokenize`, `encode`, `remember`, `grammars`.

    path, gguf          the model file
    tokenizer           text to ids and back
    template            the chat template, None for a base model, which completes raw text
    n_ctx, n_ctx_train  tokens of context here, and as the model was trained
    sampling_defaults   the model's recommended parameters, llama.cpp's where it has none
    weights_bytes       of packed weights
    weights_origin      where they are from, in words
    kv_bytes            of the keys and values of a full context
    spec_type           what drafts tokens: none, ngram-simple, draft-simple
    notices             what a user should know about this model, in sentences
    """

    def __init__(
        self, gguf: GGUF, engine: Engine, tokenizer: Tokenizer, template: ChatTemplate | None, turns: Turns
    ) -> None:
        self.gguf, self.path = gguf, gguf.path
        self.tokenizer, self.template, self._turns = tokenizer, template, turns
        self.sampling_defaults = SamplingParams.from_metadata(gguf.metadata)
        self._engine = engine
        self.n_ctx, self.n_ctx_train = engine.n_ctx, engine.hp.n_ctx_train
        self.n_vocab = engine.hp.n_vocab
        self.n_threads, self.isa, self.spec_type = engine.n_threads, engine.isa, engine.spec_type
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
        weights: str | None = None,
        chat_template: str | None = None,
        kv_type: str = "f16",
        disk_cache: bool = True,
        cache_disk_bytes: int | None = None,
        cache_ram_bytes: int | None = None,
        n_slots: int = N_SLOTS,
        n_batch: int = N_BATCH,
        speculation: SpecOptions | None = None,
        on_progress: Callable[[str, float], None] | None = None,
    ) -> "LLM":
        """Load a path, a pulled model's name, hf:owner/repo[:QUANT], or a built-in name, which is pulled if need be.

        n_ctx          tokens of context; the model's own by default. Memory is taken as it fills.
        n_threads      the physical performance cores that this process may use, by default
        isa            instruction set of the kernels, such as "avx2"; the best one of this CPU by default
        weight_cache   False packs the weights in memory: no packed file is looked for or written
        weights        "int8": matrices of an F16, BF16 or F32 file as int8 with a scale for each row, activations too,
                       and those of 6.0 or more times the file's own weights (LLM.int8()); as in the file by default
        chat_template  name of a template or Jinja source, instead of the file's own
        kv_type        how keys and values are kept: f16, bf16, f32, or q8_0, which takes half of f16's memory
        disk_cache     False keeps prompts in memory only; else they are found again after a restart
        cache_disk_bytes  at most this much disk for the prompts of all models; a tenth of the free space by default,
                       at most 16 GiB; 0 is disk_cache=False
        cache_ram_bytes  memory for conversations beside the current one; a quarter of what is free by default, at
                       most 8 GiB
        n_slots        answers that run at the same time, for those who drive the engine
        n_batch        tokens of prompts that one step takes at most, 256 or fewer
        speculation    what drafts tokens, and how many; answers are the same with any. N-grams by default
        on_progress    called with a stage ("download", "compile kernels ...", "pack weights") and a fraction 0..1

        Raises ModelNotFoundError, ModelFileError, UnsupportedModelError, DownloadError, UsageError, KernelError.
        """
        if kv_type not in KV_TYPES:
            raise UsageError(f"kv_type: expected one of {', '.join(KV_TYPES)}, found {kv_type!r}")
        if weights not in (None, *WEIGHTS):
            raise UsageError(f"weights: expected {' or '.join(WEIGHTS)}, found {weights!r}")
        for name, n_bytes in (("cache_disk_bytes", cache_disk_bytes), ("cache_ram_bytes", cache_ram_bytes)):
            if n_bytes is not None and n_bytes < 0:
                raise UsageError(f"{name}: expected 0 or more, found {n_bytes}")
        gguf = open_gguf(hub.resolve(str(model), on_progress=on_progress))
        if n_ctx is not None and n_ctx < 0:
            raise UsageError(f"n_ctx: expected at least 1, or 0 for the model's own, found {n_ctx}")
        hp = read_model(gguf, n_ctx)
        n_ctx = n_ctx or hp.n_ctx_train
        n_threads = n_threads or settings().threads or cores().n_threads
        if not 1 <= n_threads <= 256:
            raise UsageError(f"n_threads: expected 1 to 256, found {n_threads}")
        if n_batch < 1:
            raise UsageError(f"n_batch: expected at least 1, found {n_batch}")
        library = KernelLibrary(host_isa(isa))
        tokenizer = load_tokenizer(gguf)
        keep = disk_cache and cache_disk_bytes != 0
        turns = Turns(settings().paths.cache / "turns" if keep else None, tokenizer.key)
        template = load_template(gguf.metadata, tokenizer, override=chat_template, first_times=turns)
        room = CacheRoom(cache_disk_bytes if keep else 0, cache_ram_bytes)
        cut = Cut()
        host = Host(tokenizer, n_ctx, library, n_threads, room, weight_cache, cut)
        drafts = load_speculation(speculation or SpecOptions(), host, on_progress)
        engine = Engine(
            gguf,
            hp,
            n_ctx,
            library,
            n_threads,
            on_progress,
            kv_type,
            weight_cache=weight_cache,
            int8=weights == "int8",
            cache=room,
            n_slots=n_slots,
            n_batch=n_batch,
            speculation=drafts,
            cut=cut,
        )
        return cls(gguf, engine, tokenizer, template, turns)

    @cached_property
    def grammars(self) -> "Grammars":
        """Makes constraints of answers: JSON schemas, regular expressions, llama.cpp's grammars."""
        from chenxing.sampling.grammar import Grammars  # 30 ms, which only answers with a grammar need

        return Grammars(self.tokenizer, self.n_vocab)

    def tokenize(self, text: str, *, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Token ids of text; see Tokenizer.encode."""
        return self.tokenizer.encode(text, add_special=add_special, parse_special=parse_special)

    def detokenize(self, ids: Sequence[int]) -> str:
        """The text of ids; bytes that are no UTF-8 become U+FFFD."""
        return self.tokenizer.decode(ids).decode(errors="replace")

    def stream(
        self,
        prompt: str | list[Message] | Prompt,
        *,
        params: SamplingParams | None = None,
        max_tokens: int | None = None,
        stop: Sequence[str] = (),
        stop_token_ids: Sequence[int] = (),
        raw: bool = False,
        on_prefill: Callable[[int, int], None] | None = None,
        response_format: dict[str, Any] | None = None,
        json_schema: dict[str, Any] | bool | str | None = None,
        grammar: str | None = None,
        regex: str | None = None,
        grammar_after: str = "",
        constraint: Constraint | None = None,
        **template_kwargs: Any,
    ) -> Generation:
        """Start an answer; iterate for its text.

        prompt       a user's message, or a list of messages; raw text if `raw` or if the model has no template; or
                     what a template has rendered
        max_tokens   at most; None: until the model ends or the context is full
        stop         strings that end the answer and are not part of it; stop_token_ids are tokens that do
        on_prefill   called with tokens done and tokens of the prompt
        response_format, json_schema, grammar, regex   one of them: what the answer must be, see Grammars; `grammar` is
                     llama.cpp's GBNF. grammar_after is the text from which on it must, such as "</think>"
        constraint   the same, made by `grammars`
        Further arguments go to the chat template (tools, documents, enable_thinking, ...).

        Raises ContextError when the prompt does not fit, GrammarError, TemplateError, UsageError.
        """
        if max_tokens is not None and max_tokens < 0:
            raise UsageError(f"max_tokens: expected at least 0, found {max_tokens}")
        rendered = prompt if isinstance(prompt, Prompt) else self._rendered(prompt, raw, template_kwargs)
        ids = self.encode(rendered)
        self._engine.check_fits(ids)
        form = {"response_format": response_format, "json_schema": json_schema, "grammar": grammar, "regex": regex}
        given: dict[str, Any] = {name: value for name, value in form.items() if value is not None}
        if given:
            if constraint:
                raise UsageError(
                    f"constraint and {next(iter(given))} exclude each other: an answer follows one grammar"
                )
            constraint = self.grammars.any_of(**given, after=grammar_after)
        sampler = Sampler(
            params or self.sampling_defaults,
            self.n_vocab,
            token_text=self.tokenizer.token_bytes,
            eog_ids=self.tokenizer.eog_ids,
            stop_ids=stop_token_ids,
            prompt=ids,
            constraint=constraint,
        )
        if self._current:
            self._current.cancel()

        self._current = Generation(
            self._engine,
            self.tokenizer,
            sampler,
            ids,
            max_tokens=max_tokens,
            stop=stop,
            on_prefill=on_prefill,
            on_end=lambda ended: self.remember(rendered, ended.token_ids, ended.text),
        )
        return self._current

    def generate(self, prompt: str | list[Message], **options: Any) -> Generation:
        """As `stream`, run to the end: the answer is in `.text`."""
        return self.stream(prompt, **options).drain()

    def chat(self, messages: list[Message], **options: Any) -> Generation:
        """The answer to a list of messages, run to the end."""
        return self.generate(messages, **options)

    def prompt_ids(self, prompt: str | list[Message], *, raw: bool = False, **template_kwargs: Any) -> list[int]:
        """The token ids that `stream` would compute for this prompt: what the model said before is spelt as it was."""
        return self.encode(self._rendered(prompt, raw, template_kwargs))

    def encode(self, prompt: Prompt) -> list[int]:
        """The token ids of a rendered prompt: what the model said before is spelt as it was. Raises UsageError if there
        are none."""
        ids = self.tokenizer.encode(
            prompt.text,
            add_special=not prompt.has_bos,
            parse_special=True,
            guard=prompt.guard,
            spellings=self._turns,
        )
        if not ids:
            raise UsageError("prompt: expected at least one token, found none")
        return ids

    def remember(self, prompt: Prompt, token_ids: Sequence[int], text: str) -> None:
        """An answer to `prompt` is over, of which `text` was shown: `encode` is to spell it with these tokens."""
        shown = shown_ids(self.tokenizer, token_ids, text)
        self._turns.remember(spellings_of(self.tokenizer, utf8.encode(prompt.plain), shown))

    def _rendered(self, prompt: str | list[Message], raw: bool, template_kwargs: dict[str, Any]) -> Prompt:
        if not raw and self.template is not None:
            messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
            return self.template.render(messages, **template_kwargs)
        if not isinstance(prompt, str):
            raise UsageError(f"{self.path.name} has no chat template: it completes a text, not a list of messages")
        return Prompt(prompt, None)

    def logits(self, ids: Sequence[int], first: int = 0) -> np.ndarray:
        """f32[len(ids) - first, n_vocab]: logits after each of ids[first:], in a context of their own.

        Raises UsageError for ids outside of the vocabulary, ContextError for too many.
        """
        if not ids or not 0 <= first < len(ids) or min(ids) < 0 or max(ids) >= self.n_vocab:
            raise UsageError(f"logits: expected token ids from 0 to {self.n_vocab - 1} and first among them")
        return self._engine.logits(ids, first)

    @property
    def cache_stats(self) -> CacheStats:
        """What is kept of prompts and answers, in memory and on disk, and how often it served."""
        return self._engine.cache_stats

    @property
    def engine(self) -> Engine:
        """What serves its requests: for those who have many at once."""
        return self._engine

    def close(self) -> None:
        """Write what the disk is to have, and stop the threads. The model cannot be used afterwards."""
        self._engine.close()

    def __enter__(self) -> "LLM":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
