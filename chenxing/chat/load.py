"""Which template a model gets: the user's choice, the file's own, or none."""

import re
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from chenxing.chat.dates import FirstTimes
from chenxing.chat.fallback import FALLBACKS
from chenxing.chat.template import ChatTemplate
from chenxing.config import settings
from chenxing.errors import TemplateError, UsageError
from chenxing.tokenizer import Tokenizer

USER_DEFINED = 4
"""In tokenizer.ggml.token_type (gguf.TokenType.USER_DEFINED)."""

_NAME = re.compile(r"[\w.+-]{1,40}")
_INSTRUCT = re.compile(r"\b(instruct|chat|it|sft|dpo)\b", re.IGNORECASE)

MARKS = {
    "chatml": "<|im_start|>",
    "llama3": "<|start_header_id|>",
    "llama4": "<|header_start|>",
    "gemma": "<start_of_turn>",
    "granite": "<|start_of_role|>",
    "command-r": "<|START_OF_TURN_TOKEN|>",
    "deepseek3": "<｜User｜>",
    "exaone3": "[|endofturn|]",
    "seed_oss": "<seed:bos>",
}
"""Special tokens that only one format uses."""


def load_template(
    metadata: Mapping[str, Any],
    tokenizer: Tokenizer,
    *,
    override: str | None = None,
    first_times: FirstTimes | None = None,
) -> ChatTemplate | None:
    """The chat template of a model file, None for a base model without one.

    metadata       of the GGUF file: tokenizer.chat_template, tokenizer.chat_template.NAME for further ones
    tokenizer      whose BOS and EOS templates write, and whose special tokens are guarded in users' text
    override       the user's choice: a name of FALLBACKS or of a template in the file, or Jinja source
    first_times    remembers when a conversation began, for templates that show the date

    Nothing is compiled yet. Raises UsageError for an unknown name, TemplateError for metadata that is no text.
    """
    sources = _sources(metadata)
    tool_use = None
    if override is not None:
        source: str | None = _chosen(override, sources)
    else:
        source, tool_use = sources.get("default"), sources.get("tool_use")
        if source is None:
            source, tool_use = tool_use, None
        if source is None:
            source = _hinted(metadata, tokenizer.special_texts)
    if source is None:
        return None
    special, user_defined = frozenset(tokenizer.special_texts), _user_defined(metadata)
    cache = settings().paths.cache / "templates"
    template = partial(
        ChatTemplate,
        bos=_text(tokenizer, tokenizer.bos_id),
        eos=_text(tokenizer, tokenizer.eos_id),
        special=special,
        user_defined=user_defined,
        first_times=first_times,
        cache=cache,
    )
    return template(source, tool_use=None if tool_use is None else template(tool_use))


def _text(tokenizer: Tokenizer, token_id: int | None) -> str:
    return "" if token_id is None else tokenizer.token_bytes(token_id).decode(errors="replace")


def _sources(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The file's templates by name. Old files have a format's name in place of a template."""
    prefix = "tokenizer.chat_template"
    sources = {}
    for key, value in metadata.items():
        if key == prefix or key.startswith(prefix + "."):
            if not isinstance(value, str):
                raise TemplateError(f"{key}: expected a string, found {type(value).__name__}")
            if value.strip():
                sources[key[len(prefix) + 1 :] or "default"] = FALLBACKS.get(value.strip(), value)
    return sources


def _chosen(override: str, sources: Mapping[str, str]) -> str:
    name = override.strip()
    if name in sources or name in FALLBACKS:
        return sources.get(name) or FALLBACKS[name]
    if _NAME.fullmatch(name):
        import difflib

        known = sorted({*FALLBACKS, *sources})
        near = difflib.get_close_matches(name, known)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
        raise UsageError(f"--chat-template: {name!r} is neither Jinja source nor the name of a template; {hint}")
    return override


def _hinted(metadata: Mapping[str, Any], special_texts: Collection[str]) -> str | None:
    """A format for a file that is named as a chat model's and whose vocabulary has just one format's tokens."""
    names = [metadata.get(f"general.{key}") for key in ("finetune", "name", "basename")]
    if not any(isinstance(name, str) and _INSTRUCT.search(name.replace("_", " ")) for name in names):
        return None
    texts = frozenset(special_texts)
    fitting = [name for name, mark in MARKS.items() if mark in texts]
    return FALLBACKS[fitting[0]] if len(fitting) == 1 else None


def _user_defined(metadata: Mapping[str, Any]) -> frozenset[str]:
    types, tokens = metadata.get("tokenizer.ggml.token_type"), metadata.get("tokenizer.ggml.tokens")
    if types is None or tokens is None:
        return frozenset()
    n = min(len(types), len(tokens))
    return frozenset(tokens[int(i)] for i in (types[:n] == USER_DEFINED).nonzero()[0])
