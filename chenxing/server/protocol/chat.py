"""POST /v1/chat/completions. Messages are checked by chenxing.chat."""

from typing import Any

import msgspec

from chenxing.sampling.grammar import response_schema
from chenxing.server.failures import invalid, not_enforced
from chenxing.server.protocol.answer import MAX_PROBS, AnswerFields, check_range


class ResponseFormat(msgspec.Struct, kw_only=True):
    """schema is llama-server's, for json_object too."""

    type: str
    json_schema: dict[str, Any] | None = None
    schema: Any = None


class ChatRequest(AnswerFields, kw_only=True):
    """The first six become the prompt: /apply-template and input_tokens look at these only."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    parallel_tool_calls: bool | None = None
    response_format: ResponseFormat | None = None
    reasoning_format: str | None = None
    functions: list[Any] | None = None
    function_call: Any = None

    @property
    def form(self) -> dict[str, Any]:
        """As for other requests; response_format becomes its schema. Raises UsageError for one that has none."""
        form = super().form
        if self.response_format and (schema := response_schema(msgspec.to_builtins(self.response_format))) is not None:
            form["json_schema"] = schema
        return form

    def check(self) -> None:
        """Raises ApiError."""
        super().check()
        check_range("top_logprobs", self.top_logprobs, 0, MAX_PROBS)
        if self.top_logprobs and not self.logprobs:
            raise invalid("top_logprobs: expected with logprobs: true, found without it")
        if self.functions or self.function_call is not None:
            raise not_enforced("functions" if self.functions else "function_call")
        if self.reasoning_format not in (None, "none", "auto", "deepseek"):
            raise invalid(f"reasoning_format: expected none, auto or deepseek, found {self.reasoning_format!r}")
        kind = self.response_format.type if self.response_format else "text"
        if kind not in ("text", "json_object", "json_schema"):
            raise invalid(f"response_format.type: expected text, json_object or json_schema, found {kind!r}")
        if kind != "text" and (self.grammar or self.json_schema is not None):
            raise invalid("response_format: expected without grammar and json_schema, found more than one")

    @property
    def n_alternatives(self) -> int | None:
        """Alternatives of each token that are told; None: nothing is told of tokens."""
        if self.logprobs:
            return self.top_logprobs or 0
        return self.n_probs or None
