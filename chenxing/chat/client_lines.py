"""Lines that clients write into system prompts for a server's bookkeeping, and that differ from request to request.

They mean nothing to a model, and one that stands first makes every prompt a new one from its first tokens on. Dropped
are, in system messages only, and only as the first line of a text:

    x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=sdk-cli; cch=36ee5;

Claude Code sends it as the first block of its system prompt; adapters to other protocols put it in front of the next
block. `cch` is a digest of the request; older versions have none. A line of another form is somebody's text, and stays.
"""

import re

from chenxing.chat.messages import Message

_MAX_CHARACTERS = 1000

_BILLING = re.compile(r"x-anthropic-billing-header:(?: [a-z_]{1,40}=[^;\s]{0,200};)++[ \r]*+")
PER_REQUEST = (_BILLING,)
"""Each matches a whole line. Possessive quantifiers: no line takes more than one pass."""


def without_request_lines(messages: list[Message]) -> list[Message]:
    """New messages; a system message that held nothing else is gone, unless it is the only message."""
    out: list[Message] = []
    for message in messages:
        if message["role"] == "system":
            content = _without(message["content"])
            if content != message["content"]:
                message = {**message, "content": content}
                if not content and len(messages) > 1:
                    continue
        out.append(message)
    return out


def _without(content: str | list[dict[str, str]]) -> str | list[dict[str, str]]:
    if isinstance(content, str):
        return _without_first_line(content)
    kept = [(part, _without_first_line(part["text"])) for part in content]
    parts = [{**part, "text": text} for part, text in kept if text or text == part["text"]]
    return parts[0]["text"] if len(parts) == 1 else parts or ""


def _without_first_line(text: str) -> str:
    line, _, rest = text.partition("\n")
    if len(line) <= _MAX_CHARACTERS and any(form.fullmatch(line) for form in PER_REQUEST):
        return rest.lstrip("\n") if rest.startswith("\n") else rest
    return text
