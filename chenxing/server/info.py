"""What runs here: /health, /props, /models, /slots. Source: llama.cpp b11434, tools/server/README.md."""

from typing import Any

from aiohttp import web

from chenxing.server.chunks import FINGERPRINT
from chenxing.server.failures import disabled
from chenxing.server.keys import SERVICE
from chenxing.server.native_form import settings_form
from chenxing.server.service import Service
from chenxing.server.stream import json_response


async def health(request: web.Request) -> web.Response:
    """200 when requests are served, 503 before."""
    assert request.app[SERVICE].facts
    return json_response({"status": "ok"})


async def props(request: web.Request) -> web.Response:
    """The model and the defaults."""
    service = request.app[SERVICE]
    facts = service.facts
    body = {
        "default_generation_settings": {"params": settings_form(service, service.defaults), "n_ctx": service.n_ctx},
        "total_slots": service.settings.n_slots,
        "model_alias": service.name,
        "model_path": facts.path,
        "modalities": {"vision": False, "audio": False, "video": False},
        "endpoint_slots": service.settings.has_slots,
        "endpoint_props": False,
        "endpoint_metrics": service.settings.has_metrics,
        "chat_template": facts.template,
        "bos_token": facts.bos,
        "eos_token": facts.eos,
        "build_info": FINGERPRINT,
        "is_sleeping": service.is_sleeping,
    }
    return json_response(body)


async def set_props(request: web.Request) -> web.Response:
    """Never: what one client sets would change another's answers."""
    raise disabled("This server does not support changing global properties")


async def models(request: web.Request) -> web.Response:
    """OpenAI's list."""
    return json_response({"object": "list", "data": [_model(request.app[SERVICE])]})


async def model(request: web.Request) -> web.Response:
    """One of the list: this server has one model, and answers under any name that a client calls it."""
    return json_response(_model(request.app[SERVICE]))


async def slots(request: web.Request) -> web.Response:
    """Who is being answered."""
    service = request.app[SERVICE]
    assert service.facts
    if not service.settings.has_slots:
        raise disabled("This server does not support slots endpoint. Start it with `--slots`")
    body: list[dict[str, Any]] = []
    for slot in service.slots.all:
        entry = {"id": slot.number, "n_ctx": service.n_ctx, "speculative": service.settings.spec_type != "none"}
        entry["is_processing"] = slot.answer is not None
        if slot.answer is not None:
            stats = slot.answer.stats
            entry |= {"n_prompt_tokens": stats.n_prompt, "n_decoded": stats.n_generated}
        body.append(entry)
    return json_response(body)


def _model(service: Service) -> dict[str, Any]:
    """With llama-server's `meta`."""
    facts, settings = service.facts, service.settings
    return {
        "id": service.name,
        "aliases": sorted(settings.aliases) or [service.name],
        "tags": sorted(settings.tags),
        "object": "model",
        "created": int(service.started),
        "owned_by": "chenxing",
        "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
        "meta": {
            "n_vocab": facts.n_vocab,
            "n_ctx": service.n_ctx,
            "n_ctx_train": facts.n_ctx_train,
            "n_embd": facts.n_embd,
            "size": facts.size,
        },
    }
