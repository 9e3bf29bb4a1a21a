"""Prompts of requests as token ids. Everything here may take long: it is for the service's text threads."""

from dataclasses import replace
from typing import Any

from chenxing.chat import Prompt
from chenxing.chat.tool_order import in_order
from chenxing.chat.tools import Reasoning, ToolPrompt, tool_request
from chenxing.chat.tools.reasoning import CLOSE_TAG
from chenxing.llm import LLM
from chenxing.server.answers import Encoded
from chenxing.server.failures import disabled, invalid
from chenxing.server.protocol.chat import ChatRequest
from chenxing.server.protocol.completion import InfillRequest
from chenxing.server.service import Service

_TAKEN = {"messages", "self", "request", "tools", "add_generation_prompt", "continue_final_message"}


def chat_prompt(service: Service, fields: ChatRequest) -> ToolPrompt:
    """The messages as the template writes them. An assistant's message at the end is continued, as llama-server does.

    Raises UsageError, TemplateError, ApiError.
    """
    if not fields.messages:
        raise invalid("messages: expected a list of at least one message, found an empty one")
    if fields.add_generation_prompt and fields.continue_final_message:
        raise invalid("continue_final_message: expected without add_generation_prompt, found both")
    values = service.settings.template_kwargs | (fields.chat_template_kwargs or {})
    for name in _TAKEN & values.keys():
        raise invalid(f"chat_template_kwargs.{name}: expected other names: this one is the request's own")
    tools = in_order(fields.tools) if fields.tools else None
    prompt = service.tools.render(
        fields.messages,
        tool_request(tools, fields.tool_choice, fields.parallel_tool_calls),
        add_generation_prompt=fields.add_generation_prompt is not False,
        continue_final_message=_continues(fields),
        **values,
    )
    if _continues(fields):
        return replace(prompt, reasoning=_reasoning_at_end(fields.messages[-1]))
    if values.get("enable_thinking") is False and prompt.reasoning is Reasoning.OPEN:  # by a template that always does
        closed = replace(prompt.prompt, text=prompt.prompt.text + CLOSE_TAG)
        return replace(prompt, prompt=closed, reasoning=Reasoning.NONE)
    return prompt


def _continues(fields: ChatRequest) -> bool:
    roles = [message.get("role") for message in fields.messages[-2:]]
    if fields.continue_final_message is not None:
        return fields.continue_final_message
    if fields.add_generation_prompt is not None or roles[-1] != "assistant" or fields.messages[-1].get("tool_calls"):
        return False
    if roles == ["assistant", "assistant"]:
        raise invalid("messages: expected at most one assistant's message at the end, found two")
    return True


def _reasoning_at_end(message: dict[str, Any]) -> Reasoning:
    """Of an answer that goes on with this message: in its thought, if there is nothing else yet."""
    return Reasoning.OPEN if message.get("reasoning_content") and not message.get("content") else Reasoning.NONE


def encoded(llm: LLM, prompt: Prompt) -> Encoded:
    """A rendered prompt with its tokens."""
    return Encoded(llm.encode(prompt), prompt)


def raw_prompt(llm: LLM, parts: list[int | str]) -> Encoded:
    """Texts and ids in a row; BOS stands before a text that comes first."""
    if len(parts) == 1 and isinstance(parts[0], str):
        return encoded(llm, Prompt(parts[0], None))
    ids: list[int] = []
    for i, part in enumerate(parts):
        if isinstance(part, str):
            ids += llm.tokenizer.encode(part, add_special=i == 0, parse_special=True)
        else:
            ids.append(part)
    return Encoded(ids)


def infill_prompt(llm: LLM, fields: InfillRequest, n_ctx: int) -> Encoded:
    """What stands around a gap, in the order that fill-in-the-middle models are trained on.

    The prefix keeps its end and the suffix its beginning where both do not fit; files of input_extra fill what is left.
    Source: llama.cpp b11434, tools/server: format_prompt_infill.  Raises ApiError 501 for a model without the tokens.
    """
    t = llm.tokenizer
    pre, suf, mid = t.fim_pre_id, t.fim_suf_id, t.fim_mid_id
    names = [n for n, token in (("prefix", pre), ("suffix", suf), ("middle", mid)) if token is None]
    if pre is None or suf is None or mid is None:
        missing = " ".join(f"{name} token is missing." for name in names)
        raise disabled(f"Infill is not supported by this model: {missing}")

    def encode(text: str) -> list[int]:
        return t.encode(text, add_special=False, parse_special=False)

    extra = _extra_ids(llm, fields)
    prefix = [pre, *encode(fields.input_prefix), *encode(fields.prompt or "")]
    suffix = [suf, *encode(fields.input_suffix)]
    room = n_ctx - 3
    n_prefix = max(1, min(len(prefix), 3 * room // 4))
    n_suffix = max(1, min(len(suffix), room - n_prefix))
    prefix = [pre, *prefix[1:][len(prefix) - n_prefix :]]
    suffix = suffix[:n_suffix]
    bos = [t.bos_id] if t.add_bos and t.bos_id is not None else []
    left = max(0, room - len(prefix) - len(suffix) - len(bos))
    extra = extra[len(extra) - min(len(extra), left) :]
    return Encoded([*extra, *bos, *prefix, *suffix, mid])


def _extra_ids(llm: LLM, fields: InfillRequest) -> list[int]:
    t = llm.tokenizer
    ids: list[int] = []
    if fields.input_extra and t.fim_rep_id is not None:
        ids += [t.fim_rep_id, *t.encode("myproject\n", add_special=False)]
    for file in fields.input_extra or ():
        if t.fim_sep_id is not None:
            ids += [t.fim_sep_id, *t.encode(f"{file.filename}\n", add_special=False)]
        else:
            ids += t.encode("\n\n--- snippet ---\n\n", add_special=False)
        ids += t.encode(file.text, add_special=False)
    if t.fim_sep_id is not None and ids:
        ids += [t.fim_sep_id, *t.encode("filename\n", add_special=False)]
    return ids
