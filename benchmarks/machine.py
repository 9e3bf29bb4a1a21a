"""What the figures were measured on: the machine, our versions and the peer's build."""

import os
import platform
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path

from chenxing import __version__
from chenxing.cores import cores


@cache
def cpu_flags() -> frozenset[str]:
    """Linux's names of the CPU's features; empty elsewhere."""
    match = re.search(r"^(?:flags|Features)\s*:(.*)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return frozenset(match[1].split()) if match else frozenset()


def has_amx() -> bool:
    return "amx_int8" in cpu_flags()


def describe_machine() -> list[str]:
    """Lines for a report."""
    match = re.search(r"^model name\s*:(.*)$", _read("/proc/cpuinfo"), re.MULTILINE)
    cpu = match[1].strip() if match else platform.processor() or platform.machine()
    notable = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "amx_int8", "asimddp", "i8mm")
    features = ", ".join(flag for flag in notable if flag in cpu_flags())
    return [
        f"CPU: {cpu}, {cores().n_threads} cores usable" + (f" ({features})" if features else ""),
        f"Memory: {_memory_gib()} GiB; system: {platform.system()} {platform.release()}, {platform.machine()}",
        f"chenxing {__version__}, Python {platform.python_version()}, numba {version('numba')}, "
        f"llvmlite {version('llvmlite')}",
    ]


def describe_peer(folder: Path, name: str) -> str:
    """The peer's name and, where its build folder is around the programs, its compiler and flags."""
    cache = _read(str(folder.parent / "CMakeCache.txt"))
    wanted = ("CMAKE_BUILD_TYPE", "CMAKE_C_FLAGS", "CMAKE_CXX_FLAGS", "GGML_NATIVE")
    values = {key: m[1] for key in wanted if (m := re.search(rf"^{key}:\w+=(.+)$", cache, re.MULTILINE))}
    return ", ".join([f"llama.cpp: {name}", *_compiler(folder.parent), *(f"{k}={v}" for k, v in values.items())])


def _compiler(build: Path) -> list[str]:
    for path in build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake"):
        fields = dict(
            re.findall(r'set\((CMAKE_CXX_COMPILER_ID|CMAKE_CXX_COMPILER_VERSION) "([^"]*)"\)', _read(str(path)))
        )
        return [" ".join(fields.values())]
    return []


def _memory_gib() -> str:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return "unknown"
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f}"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
