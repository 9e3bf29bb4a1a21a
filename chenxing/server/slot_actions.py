"""POST /slots/N?action=save|restore|erase.

The KV cache keeps every conversation by itself, so a saved slot is its list of tokens: restoring it has the cache look
for them, and computes what it has no longer. Erasing takes the slot's conversation out of the cache, in memory and on
disk, but for what other conversations begin with too.
"""

import re
import time
from pathlib import Path

import msgspec
from aiohttp import web

from chenxing.file_names import is_ordinary
from chenxing.server.answers import Encoded
from chenxing.server.decoding import read_body
from chenxing.server.failures import disabled, invalid
from chenxing.server.keys import SERVICE
from chenxing.server.protocol.small import SlotFile
from chenxing.server.service import Service, Wish
from chenxing.server.slots import Slot
from chenxing.server.stream import json_response

_NUMBER = re.compile(r"[0-9]{1,9}")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")  # no folders, no hidden files


class SavedSlot(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A slot's file. model: the file name of the model whose tokens they are."""

    model: str
    tokens: list[int]


async def slot_action(request: web.Request) -> web.Response:
    """One of the three."""
    service = request.app[SERVICE]
    assert service.model
    folder = service.settings.slot_save_path
    if folder is None:
        raise disabled("This server does not support slots action. Start it with `--slot-save-path`")
    slot = _slot(service, request.match_info["number"])
    action = request.query.get("action")
    if action == "erase":
        ids, slot.ids = slot.ids, []
        n_erased = await service.forget(ids)
        return json_response({"id_slot": slot.number, "n_erased": n_erased})
    if action not in ("save", "restore"):
        raise invalid(f"action: expected save, restore or erase, found {action!r}")
    fields = await read_body(request, SlotFile)
    if not _NAME.fullmatch(fields.filename) or not is_ordinary(fields.filename):
        raise invalid(
            "filename: expected letters, digits, '.', '_' and '-' only, without a folder, that are no name of a device"
        )
    act = _save if action == "save" else _restore
    return json_response(await act(service, slot, folder / fields.filename, fields.filename))


def _slot(service: Service, number: str) -> Slot:
    if not _NUMBER.fullmatch(number) or int(number) >= len(service.slots.all):
        raise invalid(f"id_slot: expected 0 to {len(service.slots.all) - 1}, found {number!r:.40}")
    slot = service.slots.all[int(number)]
    if slot.answer is not None:
        raise invalid(f"id_slot: slot {number} is busy")
    return slot


async def _save(service: Service, slot: Slot, path: Path, name: str) -> dict[str, object]:
    started = time.perf_counter()
    data = msgspec.json.encode(SavedSlot(model=service.model.path.name, tokens=slot.ids))
    try:
        await service.in_text_thread(lambda: path.write_bytes(data))
    except OSError as error:
        raise invalid(f"filename: {name} cannot be written: {error.strerror}") from None
    timings = {"save_ms": 1000 * (time.perf_counter() - started)}
    head = {"id_slot": slot.number, "filename": name}
    return {**head, "n_saved": _n_computed(slot.ids), "n_written": len(data), "timings": timings}


async def _restore(service: Service, slot: Slot, path: Path, name: str) -> dict[str, object]:
    started = time.perf_counter()
    try:
        data = await service.in_text_thread(path.read_bytes)
        saved = msgspec.json.decode(data, type=SavedSlot)
    except OSError as error:
        raise invalid(f"filename: {name} cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise invalid(f"filename: {name} is no saved slot") from None
    if saved.model != service.model.path.name:
        raise invalid(f"filename: {name} was saved with {saved.model}, this is {service.model.path.name}")
    if saved.tokens:
        job = service.submit([Encoded(saved.tokens)], Wish(service.defaults, max_tokens=1))
        try:
            await job.drain()
        finally:
            service.finished(job)
    slot.ids = saved.tokens
    timings = {"restore_ms": 1000 * (time.perf_counter() - started)}
    head = {"id_slot": slot.number, "filename": name}
    return {**head, "n_restored": _n_computed(slot.ids), "n_read": len(data), "timings": timings}


def _n_computed(ids: list[int]) -> int:
    """Of a conversation that ended; its last token was never an input."""
    return max(0, len(ids) - 1)
