"""Which models fit into this machine's memory, and with how long a context."""

from pathlib import Path

from chenxing.errors import ChenxingError
from chenxing.hub.disk import human_bytes
from chenxing.memory import machine_bytes
from chenxing.terminal.doctor_checks import Finding

_OURS_BYTES = 150 * 10**6  # of the program itself, tables and scratch: about
_LITTLE_CTX = 2048


def check_fit(models: list[str]) -> Finding:
    """The pulled models and these. A context that is not the model's own is what the available memory holds."""
    total, available = machine_bytes()
    room = available or total
    fits = [_fit(name, path, room) for name, path in _known(models)]
    advice = tuple(sentence for fit in fits for sentence in fit.advice)
    text = "\n".join(fit.text for fit in fits) or "none is pulled; `chenxing doctor FILE` looks at a file"
    return Finding("fit", text, {fit.title: fit.facts for fit in fits}, advice)


def _known(models: list[str]) -> list[tuple[str, Path | None]]:
    """Names and files; None for what is not on this machine."""
    from chenxing.hub import library

    known: list[tuple[str, Path | None]] = [(m.name, m.path) for m in library.list_models() if m.is_complete]
    for name in models:
        try:
            known.append((name, library.locate(name)[0]))
        except ChenxingError:
            known.append((name, None))
    return known


def _fit(name: str, path: Path | None, room: int | None) -> Finding:
    from chenxing.gguf import open_gguf
    from chenxing.kernels.layout import PAGE
    from chenxing.models.model import page_bytes, read_model

    if path is None:
        return Finding(name, f"{name}: not on this machine", {"error": "not on this machine"})
    try:
        gguf = open_gguf(path)
        hp = read_model(gguf)
    except ChenxingError as error:
        return Finding(name, f"{name}: cannot be run: {error}", {"error": str(error)})
    weights, own, page = sum(p.stat().st_size for p in gguf.paths), hp.n_ctx_train, page_bytes(hp)
    full = weights + _OURS_BYTES + -(-own // PAGE) * page
    facts = {"weights": weights, "kv_per_token": page // PAGE, "n_ctx_train": own, "needed": full}
    said = f"{name}: {human_bytes(full)} with its whole context of {own} tokens (f16)"
    if room is None or full <= room:
        return Finding(name, f"{said}: fits", facts | {"n_ctx": own})
    n_ctx = max(0, (room - weights - _OURS_BYTES) // page * PAGE)
    if n_ctx < _LITTLE_CTX:
        advice = (f"{name} is too large for the memory that is available: take a smaller model or quant.",)
        return Finding(name, f"{said}: does not fit", facts | {"n_ctx": n_ctx}, advice)
    return Finding(name, f"{said}: fits with -c {n_ctx}; twice that with -ctk q8_0", facts | {"n_ctx": n_ctx})
