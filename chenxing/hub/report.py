"""What `list` and `show` say, as rows, lines and JSON entries; commands.py chooses the clothes."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from chenxing.hub.describe import ModelDescription
from chenxing.hub.disk import human_bytes
from chenxing.hub.store import PulledModel

LIST_HEADER = ("NAME", "SIZE", "QUANT", "ARCHITECTURE", "CONTEXT", "LICENCE", "PULLED")


def list_row(model: PulledModel) -> tuple[str, ...]:
    """One cell for each name in LIST_HEADER; "-" where a fact is not known."""
    summary = model.summary or {}
    size, pulled = human_bytes(model.n_bytes), (model.pulled or "-")[:10]
    if not model.is_complete:
        pulled = "incomplete"
        size = f"{human_bytes(model.n_bytes_there)} of {size}"
    facts = (summary.get(key) for key in ("quant", "architecture", "n_ctx_train"))
    return (model.name, size, *("-" if fact is None else str(fact) for fact in facts), _licence(model) or "-", pulled)


def list_entry(model: PulledModel) -> dict[str, Any]:
    """The JSON object of one model in `list --json`."""
    return {
        "name": model.name,
        "path": str(model.path),
        "n_bytes": model.n_bytes,
        "is_complete": model.is_complete,
        "source": model.source,
        "pulled": model.pulled,
        **(model.summary or {}),
        "licence": _licence(model),
    }


def show_entry(facts: ModelDescription, model: PulledModel | None) -> dict[str, Any]:
    """The JSON object of `show --json`: the file's facts, and where it is from if it was pulled."""
    entry = {"name": model.name if model else None, "source": model.source if model else None}
    entry |= asdict(facts) | {"paths": [str(path) for path in facts.paths]}
    pulled = model.pulled if model else None
    sha256 = [file.sha256 for file in model.files] if model else None
    return entry | {"licence": facts.licence or _licence(model), "pulled": pulled, "sha256": sha256}


def show_lines(facts: ModelDescription, model: PulledModel | None) -> list[tuple[str, str]]:
    """`show` as (key, value) lines; facts that the file does not state are left out."""
    return [(key, value) for key, value in _all_lines(facts, model) if value is not None]


def _all_lines(facts: ModelDescription, model: PulledModel | None) -> Iterator[tuple[str, str | None]]:
    yield "name", model.name if model else None
    yield "title", facts.title
    yield from (("file", str(path)) for path in facts.paths)
    yield "size", f"{human_bytes(facts.n_bytes)} ({facts.n_bytes} bytes)"
    yield "architecture", facts.architecture
    yield "parameters", f"{_human_count(facts.n_params)} ({facts.n_params})"
    yield "quant", facts.quant
    for share in facts.types:
        percent = 100 * share.n_bytes / max(1, sum(other.n_bytes for other in facts.types))
        yield f"type {share.type}", f"{human_bytes(share.n_bytes)}, {percent:.1f} %, {share.n_tensors} tensors"
    yield "context", _text(facts.n_ctx_train)
    yield "layers", _text(facts.n_layer)
    yield "embedding", _text(facts.n_embd)
    yield "heads", _text(facts.n_head)
    yield "KV heads", _text(facts.n_head_kv)
    yield "vocabulary", _text(facts.n_vocab)
    yield "tokenizer", facts.tokenizer
    yield "template", _template(facts)
    yield "licence", facts.licence or _licence(model)
    yield "sampling", ", ".join(f"{key} {value}" for key, value in facts.sampling.items()) or None
    yield "source", model.source if model else None
    yield "pulled", model.pulled if model else None
    yield from (("sha256", file.sha256) for file in (model.files if model else ()))


def _template(facts: ModelDescription) -> str:
    if not facts.templates:
        return "no (a base model: it continues text)"
    others = [name for name in facts.templates if name != "default"]
    named = f"; more of them: {', '.join(others)}" if others else ""
    return f"yes{f', {facts.template_family}' if facts.template_family else ''}{named}"


def _licence(model: PulledModel | None) -> str | None:
    """What the source states; else what the file itself states."""
    return (model.licence or (model.summary or {}).get("licence")) if model else None


def _text(value: int | tuple[int, ...] | None) -> str | None:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return None if value is None else str(value)


def _human_count(n: int) -> str:
    for limit, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if n >= limit:
            return f"{n / limit:.3g}{unit}"
    return str(n)
