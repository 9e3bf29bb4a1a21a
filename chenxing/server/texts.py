"""llama-server's text tools: /tokenize, /detokenize, /apply-template."""

from typing import Any

from aiohttp import web

from chenxing.server.decoding import read_body
from chenxing.server.failures import invalid
from chenxing.server.keys import SERVICE
from chenxing.server.prompts import chat_prompt
from chenxing.server.protocol.chat import ChatRequest
from chenxing.server.protocol.small import DetokenizeRequest, TokenizeRequest
from chenxing.server.stream import json_response
from chenxing.tokenizer import Tokenizer


async def tokenize(request: web.Request) -> web.Response:
    """Text to ids."""
    service = request.app[SERVICE]
    tokenizer = service.model.tokenizer
    fields = await read_body(request, TokenizeRequest)
    add, parse = fields.add_special, fields.parse_special
    text = fields.content
    ids = await service.in_text_thread(lambda: tokenizer.encode(text, add_special=add, parse_special=parse))
    if not fields.with_pieces:
        return json_response({"tokens": ids})
    return json_response({"tokens": [{"id": i, "piece": _piece(tokenizer, i)} for i in ids]})


async def detokenize(request: web.Request) -> web.Response:
    """Ids to text."""
    service = request.app[SERVICE]
    llm = service.model
    fields = await read_body(request, DetokenizeRequest)
    for i, token in enumerate(fields.tokens):
        if not 0 <= token < llm.n_vocab:
            raise invalid(f"tokens[{i}]: expected 0 to {llm.n_vocab - 1}, found {token}")
    data = await service.in_text_thread(lambda: llm.tokenizer.decode(fields.tokens, special=True))
    return json_response({"content": data.decode(errors="replace")})


async def apply_template(request: web.Request) -> web.Response:
    """Messages to the text of a prompt."""
    service = request.app[SERVICE]
    assert service.model
    fields = await read_body(request, ChatRequest)
    rendered = await service.in_text_thread(lambda: chat_prompt(service, fields))
    return json_response({"prompt": rendered.prompt.plain})


def _piece(tokenizer: Tokenizer, token: int) -> Any:
    """Text, or bytes where they are no UTF-8."""
    data = tokenizer.token_bytes(token)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return list(data)
