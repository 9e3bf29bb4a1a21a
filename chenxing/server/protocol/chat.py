"""POST /v1/chat/completions. Messages are checked by chenxing.chat."""

from typing import Any

import msgspec

from chenxing.server.failures import invalid, not_enforced
from chenxing.server.protocol.answer import MAX_PROBS, AnswerFields, check_range


class ResponseFormat(msgspec.Struct, kw_only=True):
    type: str
    json_schema: dict[str, Any] | None = None
    schema: dict[str, Any] | None = None


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

    @property
    def offered_tools(self) -> list[dict[str, Any]] | None:
        """Tools that the model is told of."""
        return None if self.tool_choice == "none" else self.tools or None

    def check(self) -> None:
        """Raises ApiError."""
        super().check()
        check_range("top_logprobs", self.top_logprobs, 0, MAX_PROBS)
        if self.top_logprobs and not self.logprobs:
            raise invalid("top_logprobs: expected with logprobs: true, found without it")
        if isinstance(self.tool_choice, str) and self.tool_choice not in ("none", "auto", "required"):
            raise invalid(f"tool_choice: expected none, auto, required or an object, found {self.tool_choice!r}")
        if self.tool_choice not in (None, "none", "auto") and not self.tools:
            raise invalid("tool_choice: expected with tools, found without any")
        if self.offered_tools:
            raise not_enforced("tools")
        if self.response_format and self.response_format.type not in ("text", "json_object", "json_schema"):
            found = self.response_format.type
            raise invalid(f"response_format.type: expected text, json_object or json_schema, found {found!r}")
        if self.response_format and self.response_format.type != "text":
            raise not_enforced("response_format")

    @property
    def n_alternatives(self) -> int | None:
        """Alternatives of each token that are told; None: nothing is told of tokens."""
        if self.logprobs:
            return self.top_logprobs or 0
        return self.n_probs or None
