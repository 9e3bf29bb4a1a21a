"""Answers as structs, for the document only: a test holds real answers against them, member by member.

A member that is UNSET by default is not always there.
"""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

FinishReason = Literal["stop", "length", "tool_calls"]
Absent = UnsetType


class Error(Struct, kw_only=True):
    """What went wrong. `code` is the HTTP status; `message` names the field, what was expected and what was found."""

    code: int
    message: str
    type: str
    n_prompt_tokens: int | Absent = UNSET
    n_ctx: int | Absent = UNSET


class ErrorBody(Struct, kw_only=True):
    error: Error


class Health(Struct, kw_only=True):
    status: Literal["ok"]


class PromptTokensDetails(Struct, kw_only=True):
    """cached_tokens: found in the cache, so that they were not computed."""

    cached_tokens: int


class Usage(Struct, kw_only=True):
    completion_tokens: int
    prompt_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class Timings(Struct, kw_only=True):
    """cache_n: tokens of the prompt that were in the cache; prompt_n: that were computed; predicted_n: generated."""

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float


class Progress(Struct, kw_only=True):
    """Tokens of the prompt: all of them, found in the cache, done."""

    total: int
    cache: int
    processed: int
    time_ms: int


class TopToken(Struct, kw_only=True):
    """`prob` stands for `logprob` where post_sampling_probs was asked for."""

    id: int
    token: str
    bytes: list[int]
    logprob: float | Absent = UNSET
    prob: float | Absent = UNSET


class TokenProb(TopToken, kw_only=True):
    top_logprobs: list[TopToken] | Absent = UNSET
    top_probs: list[TopToken] | Absent = UNSET


class ChatLogprobs(Struct, kw_only=True):
    content: list[TokenProb]


class Function(Struct, kw_only=True):
    """arguments: JSON as text; in a stream, a piece of it."""

    name: str | Absent = UNSET
    arguments: str | Absent = UNSET


class ToolCall(Struct, kw_only=True):
    """index: in a stream, which call a piece belongs to."""

    function: Function
    id: str | Absent = UNSET
    type: Literal["function"] | Absent = UNSET
    index: int | Absent = UNSET


class Message(Struct, kw_only=True):
    """reasoning_content: what the model thought before it answered."""

    role: Literal["assistant"]
    content: str | None = None
    reasoning_content: str | Absent = UNSET
    tool_calls: list[ToolCall] | Absent = UNSET


class Delta(Struct, kw_only=True):
    """What is added to the message."""

    role: Literal["assistant"] | Absent = UNSET
    content: str | Absent | None = UNSET
    reasoning_content: str | Absent = UNSET
    tool_calls: list[ToolCall] | Absent = UNSET


class ChatChoice(Struct, kw_only=True):
    index: int
    message: Message
    finish_reason: FinishReason
    logprobs: ChatLogprobs | Absent = UNSET


class ChatChunkChoice(Struct, kw_only=True):
    index: int
    delta: Delta
    finish_reason: FinishReason | None
    logprobs: ChatLogprobs | Absent = UNSET


class Head(Struct, kw_only=True):
    id: str
    created: int
    model: str
    system_fingerprint: str
    timings: Timings | Absent = UNSET


class ChatCompletion(Head, kw_only=True):
    object: Literal["chat.completion"]
    choices: list[ChatChoice]
    usage: Usage
    verbose: dict[str, Any] | Absent = field(default=UNSET, name="__verbose")


class ChatCompletionChunk(Head, kw_only=True):
    """The data of an event of the stream; the last event's is [DONE]."""

    object: Literal["chat.completion.chunk"]
    choices: list[ChatChunkChoice]
    usage: Usage | Absent = UNSET
    prompt_progress: Progress | Absent = UNSET


class CompletionLogprobs(Struct, kw_only=True):
    """Parallel lists, and the same as `content`."""

    content: list[TokenProb]
    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(Struct, kw_only=True):
    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: FinishReason | None


class Completion(Head, kw_only=True):
    """A whole answer, and the data of an event of a stream; the last event's is [DONE]."""

    object: Literal["text_completion"]
    choices: list[CompletionChoice]
    usage: Usage | Absent = UNSET
    verbose: dict[str, Any] | Absent = field(default=UNSET, name="__verbose")
    prompt_progress: Progress | Absent = UNSET
