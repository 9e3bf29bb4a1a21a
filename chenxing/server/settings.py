"""How a server runs: what the command line decided, frozen."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chenxing.engine import SpecOptions
from chenxing.server.logs import LogFormat

BODY_BYTES = 32 * 1024 * 1024  # of one request at most: a context of millions of tokens fits
BODY_SECONDS = 60.0  # that it may take to arrive
SHUTDOWN_SECONDS = 3.0  # that running answers get to end after SIGTERM; the process is gone within 5


@dataclass(frozen=True)
class ServeSettings:
    """model           path or name, as LLM.load takes it
    model_options      further arguments of LLM.load
    hosts, port        addresses to listen at; port 0: any free one
    api_keys           one of them is asked for; none: everybody who reaches the socket is served
    allowed_hosts      names that a Host header may have beside loopback's and addresses
    cors_origins       origins of web pages that may read answers; None: loopback's, or all where a key is asked for
    aliases, tags      names of the model to clients, labels
    n_slots            answers that run at once
    n_ctx_slot         tokens that one answer's context may have; None: the whole context
    context_shift      an answer whose context is full goes on with a part of it, instead of ending there
    n_keep             tokens at the beginning that stay then; -1: the whole prompt
    n_predict          tokens of an answer where a request does not say; None: until it ends
    sampling           fields of SamplingParams that replace the model's defaults
    template_kwargs    values for every chat template
    log_format         how lines on stderr are written; json has one for each request
    sleep_idle_seconds after so long without a request the model is let go of, until the next one; None: never
    slot_save_path     folder for /slots/N?action=save; None: no such action
    has_slots, has_metrics, has_prompts
                       GET /slots and GET /metrics answer; answers carry their prompts in `__verbose`
    has_ui             there are pages for people, at / and /docs
    on_ready           told the address when the model is loaded, in the event loop's thread
    """

    model: str
    model_options: dict[str, Any] = field(default_factory=dict)
    hosts: tuple[str, ...] = ("127.0.0.1",)
    port: int = 8080
    api_keys: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] | None = None
    aliases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    n_slots: int = 8
    n_ctx_slot: int | None = None
    context_shift: bool = False
    n_keep: int = 0
    n_predict: int | None = None
    sampling: dict[str, Any] = field(default_factory=dict)
    template_kwargs: dict[str, Any] = field(default_factory=dict)
    log_format: LogFormat = "text"
    sleep_idle_seconds: float | None = None
    slot_save_path: Path | None = None
    has_slots: bool = True
    has_metrics: bool = False
    has_prompts: bool = False
    has_ui: bool = True
    on_ready: Callable[[str], None] = lambda address: None
    body_bytes: int = BODY_BYTES
    body_seconds: float = BODY_SECONDS
    shutdown_seconds: float = SHUTDOWN_SECONDS

    @property
    def spec_type(self) -> str:
        """What drafts tokens: none, ngram-simple, draft-simple."""
        options: SpecOptions = self.model_options.get("speculation") or SpecOptions()
        return options.kind
