"""Memory of this process and of the machine, as far as the system tells without more packages."""

import sys
from pathlib import Path


def resident_bytes(root: Path = Path("/")) -> int | None:
    """What this process has in memory now, mapped files included; on macOS the most that it ever had."""
    if sys.platform == "win32":
        return None
    if sys.platform == "darwin":
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _field(root / "proc/self/status", "VmRSS")


def machine_bytes(root: Path = Path("/")) -> tuple[int | None, int | None]:
    """Memory of the machine, and what programs can still get of it; None for what is not known."""
    if sys.platform == "win32":
        return _windows()
    if sys.platform == "darwin":
        import os

        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), None
    return _field(root / "proc/meminfo", "MemTotal"), _field(root / "proc/meminfo", "MemAvailable")


def _field(path: Path, name: str) -> int | None:
    """Bytes of a line such as "MemTotal:  24683630 kB"."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    for words in map(str.split, lines):
        if len(words) == 3 and words[0] == f"{name}:" and words[1].isdecimal():
            return int(words[1]) * 1024
    return None


def _windows() -> tuple[int | None, int | None]:
    """By GlobalMemoryStatusEx, whose struct is two u32 and seven u64. Source  Microsoft sysinfoapi.h"""
    import ctypes
    import struct

    layout = struct.Struct("<II7Q")
    buffer = ctypes.create_string_buffer(layout.pack(layout.size, *[0] * 8), layout.size)
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(buffer):  # type: ignore[attr-defined, unused-ignore]
        return None, None
    _, _, total, available, *_ = layout.unpack(buffer.raw)
    return total, available
