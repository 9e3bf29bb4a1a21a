"""Answers of llama-server's own endpoints as structs, for the document only."""

from typing import Any, Literal

from msgspec import UNSET, Struct

from chenxing.server.openapi.answers import Absent, Progress, Timings, TokenProb


class NativeAnswer(Struct, kw_only=True):
    """A whole answer, and the data of an event of a stream, whose last one has `stop` true and everything about it.

    With response_fields: only these, under the paths that were asked for.
    """

    index: int | Absent = UNSET
    content: str | Absent = UNSET
    tokens: list[int] | Absent = UNSET
    id_slot: int | Absent = UNSET
    stop: bool | Absent = UNSET
    model: str | Absent = UNSET
    tokens_predicted: int | Absent = UNSET
    tokens_evaluated: int | Absent = UNSET
    tokens_cached: int | Absent = UNSET
    generation_settings: dict[str, Any] | Absent = UNSET
    prompt: str | Absent = UNSET
    has_new_line: bool | Absent = UNSET
    truncated: bool | Absent = UNSET
    stop_type: Literal["limit", "word", "eos"] | Absent = UNSET
    stopping_word: str | Absent = UNSET
    timings: Timings | Absent = UNSET
    completion_probabilities: list[TokenProb] | Absent = UNSET
    prompt_progress: Progress | Absent = UNSET


class GenerationDefaults(Struct, kw_only=True):
    """params: what a request gets that does not say otherwise; n_ctx: tokens of one answer's context."""

    params: dict[str, Any]
    n_ctx: int


class Modalities(Struct, kw_only=True):
    vision: bool
    audio: bool
    video: bool


class Props(Struct, kw_only=True):
    default_generation_settings: GenerationDefaults
    total_slots: int
    model_alias: str
    model_path: str
    modalities: Modalities
    endpoint_slots: bool
    endpoint_props: bool
    endpoint_metrics: bool
    chat_template: str
    bos_token: str
    eos_token: str
    build_info: str
    is_sleeping: bool


class ModelMeta(Struct, kw_only=True):
    """size: bytes of weights."""

    n_vocab: int
    n_ctx: int
    n_ctx_train: int
    n_embd: int
    size: int


class Model(Struct, kw_only=True):
    id: str
    aliases: list[str]
    tags: list[str]
    object: Literal["model"]
    created: int
    owned_by: str
    architecture: dict[str, list[str]]
    meta: ModelMeta


class ModelList(Struct, kw_only=True):
    object: Literal["list"]
    data: list[Model]


class SlotState(Struct, kw_only=True):
    id: int
    n_ctx: int
    speculative: bool
    is_processing: bool
    n_prompt_tokens: int | Absent = UNSET
    n_decoded: int | Absent = UNSET


class SlotTimings(Struct, kw_only=True):
    save_ms: float | Absent = UNSET
    restore_ms: float | Absent = UNSET


class SlotActed(Struct, kw_only=True):
    """Tokens that were saved, restored or erased; bytes that were written or read."""

    id_slot: int
    filename: str | Absent = UNSET
    n_saved: int | Absent = UNSET
    n_written: int | Absent = UNSET
    n_restored: int | Absent = UNSET
    n_read: int | Absent = UNSET
    n_erased: int | Absent = UNSET
    timings: SlotTimings | Absent = UNSET


class TokenPiece(Struct, kw_only=True):
    """piece: text, or bytes where they are no UTF-8."""

    id: int
    piece: str | list[int]


class Tokens(Struct, kw_only=True):
    tokens: list[int | TokenPiece]


class Content(Struct, kw_only=True):
    content: str


class RenderedPrompt(Struct, kw_only=True):
    prompt: str


class InputTokens(Struct, kw_only=True):
    input_tokens: int
    object: Literal["response.input_tokens"]
