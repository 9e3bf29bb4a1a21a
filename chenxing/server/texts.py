"""llama-server's text tools: /tokenize, /detokenize, /apply-template."""

from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from chenxing.server.decoding import read_body
from chenxing.server.failures import invalid
from chenxing.server.keys import SERVICE
from chenxing.server.prompts import chat_prompt
from chenxing.server.protocol.chat import ChatRequest
from chenxing.server.protocol.small import DetokenizeRequest, TokenizeRequest
from chenxing.server.service import Service
from chenxing.server.stream import json_response, to_json
from chenxing.tokenizer import Tokenizer


async def tokenize(request: web.Request) -> web.Response:
    """Text to ids."""
    service = request.app[SERVICE]
    tokenizer = service.model.tokenizer
    fields = await read_body(request, TokenizeRequest)

    def answer() -> dict[str, Any]:
        ids = tokenizer.encode(fields.content, add_special=fields.add_special, parse_special=fields.parse_special)
        return {"tokens": [{"id": i, "piece": _piece(tokenizer, i)} for i in ids] if fields.with_pieces else ids}

    return await _answered(service, answer)


async def detokenize(request: web.Request) -> web.Response:
    """Ids to text."""
    service = request.app[SERVICE]
    llm = service.model
    fields = await read_body(request, DetokenizeRequest)

    def answer() -> dict[str, Any]:
        for i, token in enumerate(fields.tokens):
            if not 0 <= token < llm.n_vocab:
                raise invalid(f"tokens[{i}]: expected 0 to {llm.n_vocab - 1}, found {token}")
        return {"content": llm.tokenizer.decode(fields.tokens, special=True).decode(errors="replace")}

    return await _answered(service, answer)


async def apply_template(request: web.Request) -> web.Response:
    """Messages to the text of a prompt."""
    service = request.app[SERVICE]
    assert service.model
    fields = await read_body(request, ChatRequest)
    rendered = await service.in_text_thread(lambda: chat_prompt(service, fields))
    return json_response({"prompt": rendered.prompt.plain})


async def _answered(service: Service, answer: Callable[[], dict[str, Any]]) -> web.Response:
    """What answer returns. Its JSON is made in the text thread too: it may have a million numbers."""
    return json_response(await service.in_text_thread(lambda: msgspec.Raw(to_json(answer()))))


def _piece(tokenizer: Tokenizer, token: int) -> Any:
    """Text, or bytes where they are no UTF-8."""
    data = tokenizer.token_bytes(token)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)
