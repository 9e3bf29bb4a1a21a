"""The checks of `chenxing doctor`: each looks at one thing and says what it found, and what to do if that is bad."""

import contextlib
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from chenxing import __version__
from chenxing.config import settings
from chenxing.cores import cores
from chenxing.errors import ChenxingError
from chenxing.hub.disk import free_bytes, human_bytes
from chenxing.memory import machine_bytes

_PACKAGES = ("numba", "llvmlite", "numpy", "aiohttp", "llguidance", "huggingface_hub")
_LITTLE_DISK_BYTES = 5 * 10**9
_PORT = 8080  # serve's default
_LITTLE_MEMORY_BYTES = 2 * 10**9


@dataclass(frozen=True)
class Finding:
    """text for people, facts for programs; advice: what to do about it, in sentences."""

    title: str
    text: str
    facts: dict[str, Any] = field(default_factory=dict)
    advice: tuple[str, ...] = ()


def check_versions() -> Finding:
    packages = {}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    facts = {"chenxing": __version__, "python": platform.python_version(), **packages}
    missing = [name for name in _PACKAGES if name not in packages]
    advice = tuple(f"{name} is missing: install chenxing with its dependencies." for name in missing)
    return Finding("versions", ", ".join(f"{name} {version}" for name, version in facts.items()), facts, advice)


def check_cpu() -> Finding:
    """The CPU, the features that kernels know, the instruction sets they can use and the one they will use."""
    from chenxing.kernels.isa import ISAS, host_features, supported
    from chenxing.kernels.library import host_isa

    name = cpu_name(Path("/")) or platform.processor() or platform.machine()
    features = host_features()
    usable = [isa.name for isa in supported(features)]
    advice: tuple[str, ...] = ()
    try:
        chosen = host_isa().name
    except ChenxingError as error:
        chosen, advice = "none", (f"{error}.",)
    if chosen == "sse":
        advice = ("This CPU has no AVX2 (a virtual machine may hide it): kernels will be several times slower.",)
    known = {feature for isa in ISAS.values() for feature in isa.features}
    here = sorted(feature for feature in known if features.get(feature, False))
    used = sorted(ISAS[chosen].features) if chosen in ISAS else []
    text = f"{name}; kernels use {chosen} of {', '.join(usable) or 'none'}: {' '.join(used)}"
    facts = {"name": name, "usable": usable, "chosen": chosen, "features": here, "used_features": used}
    return Finding("processor", text, facts, advice)


def cpu_name(root: Path) -> str:
    """The name in /proc/cpuinfo; empty where there is none."""
    with contextlib.suppress(OSError):
        for line in (root / "proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model"):
                return value.strip()
    return ""


def check_threads() -> Finding:
    found, chosen = cores(), settings().threads
    n, why = (chosen, "CHENXING_THREADS") if chosen is not None else (found.n_threads, found.why)
    facts = {"n_threads": n, "why": why, **vars(found)}
    advice = []
    if found.quota is not None and found.quota < 1:
        advice.append(f"The container's quota is {found.quota:g} CPUs: answers will be slow, give it more.")
    if n > found.n_threads:
        advice.append(f"{n} threads are more than the {found.n_threads} that pay here: they will wait for each other.")
    return Finding("threads", f"{n} ({why}; {found.logical} logical CPUs)", facts, tuple(advice))


def check_memory() -> Finding:
    total, available = machine_bytes()
    text = f"{human_bytes(total)}" if total else "not known on this system"
    text += f", {human_bytes(available)} available" if available else ""
    few = available is not None and available < _LITTLE_MEMORY_BYTES
    advice = ("Little memory is free: close programs, or take a smaller model or -c.",) if few else ()
    return Finding("memory", text, {"total": total, "available": available}, advice)


def check_models() -> Finding:
    return _folder("models", settings().paths.models, "CHENXING_HOME names a folder on another disk.")


def check_cache() -> Finding:
    """The folder, and what each section of it takes."""
    from chenxing.terminal.cache_sections import SECTIONS

    found = _folder("cache", settings().paths.cache, "`chenxing cache clear all` empties it.")
    sizes = {section.name: _used(section.folder) for section in SECTIONS}
    text = ", ".join(f"{name} {human_bytes(size)}" for name, size in sizes.items() if size)
    text = f"{found.text}\n{text}" if text else found.text
    return Finding(found.title, text, found.facts | {"sections": sizes}, found.advice)


def check_port() -> Finding:
    """The port of `chenxing serve`: free, ours, or another program's."""
    from chenxing.terminal.app import free_port, is_ours

    if is_ours(_PORT):
        return Finding("port", f"{_PORT}: a chenxing serves there", {"port": _PORT, "state": "chenxing"})
    if free_port(_PORT) == _PORT:
        return Finding("port", f"{_PORT} is free", {"port": _PORT, "state": "free"})
    advice = (f"Port {_PORT} is another program's: give `chenxing serve` another --port, or 0 for any free one.",)
    return Finding("port", f"{_PORT} is taken by another program", {"port": _PORT, "state": "taken"}, advice)


def _folder(title: str, path: Path, remedy: str) -> Finding:
    """Size of a folder and room of its disk; whether it can be written is tried."""
    used, advice, free = _used(path), [], None
    try:
        free = free_bytes(path)
    except OSError as error:
        advice.append(f"{path} cannot be read: {error.strerror or error}. Set CHENXING_HOME to a folder of yours.")
    if free is not None and free < _LITTLE_DISK_BYTES:
        advice.append(f"The disk of {path} is almost full. {remedy}")
    if not _is_writable(path):
        advice.append(f"{path} cannot be written. Set CHENXING_HOME to a folder of yours.")
    room = f", {human_bytes(free)} free on its disk" if free is not None else ""
    return Finding(
        title, f"{path}: {human_bytes(used)}{room}", {"path": str(path), "used": used, "free": free}, (*advice,)
    )


def _used(path: Path) -> int:
    total = 0
    for file in path.rglob("*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            if file.is_file() and not file.is_symlink():
                total += file.stat().st_size
    return total


def _is_writable(path: Path) -> bool:
    """Whether a file can be made there, or in the nearest folder that exists."""
    import tempfile

    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        with tempfile.TemporaryFile(dir=path):
            return True
    except OSError:
        return False


def check_system() -> Finding:
    """64 bits, and an operating system that kernels have been made for."""
    bits = 64 if sys.maxsize > 2**32 else 32
    text = f"{platform.system()} {platform.release()}, {platform.machine()}, {bits}-bit Python"
    advice = ("This Python has 32 bits: models do not fit. Install a 64-bit one.",) if bits == 32 else ()
    return Finding("system", text, {"system": platform.system(), "machine": platform.machine(), "bits": bits}, advice)


CHECKS: list[Callable[[], Finding]] = [
    check_versions,
    check_system,
    check_cpu,
    check_threads,
    check_memory,
    check_models,
    check_cache,
    check_port,
]
