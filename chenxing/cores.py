"""How many threads this machine is good for: the physical performance cores that this process may really use.

Threads beyond that share a core's units, wait for a slower core, or are stopped when the container's quota is spent.
Linux tells all of it in /proc and /sys, macOS by sysctl, Windows by GetLogicalProcessorInformationEx.

Source  Linux Documentation/admin-guide/cputopology.rst, ABI/testing/sysfs-devices-system-cpu; Apple sysctlbyname(3);
        Microsoft winnt.h, SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX
"""

import os
import struct
import sys
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from chenxing.cgroups import cpu_quota

_CAPABLE = 0.75  # of the fastest core's capacity: slower cores would be waited for


@dataclass(frozen=True)
class Cores:
    """What there is, narrowing down.

    logical      logical processors of the machine
    usable       of those, the ones that this process's affinity allows
    physical     cores that the usable ones belong to
    performance  of those cores, the fast ones; all of them on machines with one kind
    quota        CPUs' worth of time that the cgroup grants, None: no limit
    """

    logical: int
    usable: int
    physical: int
    performance: int
    quota: float | None = None

    @property
    def n_threads(self) -> int:
        """The default number of threads."""
        return max(1, min(self.performance, int(self.quota) if self.quota is not None else self.performance))

    @property
    def why(self) -> str:
        """The reason for n_threads, in a few words."""
        if self.quota is not None and self.quota < self.performance:
            return f"the cgroup's quota is {self.quota:g} CPUs of {self.physical} cores"
        words = f"{self.physical} physical core{'s' * (self.physical != 1)}"
        if self.performance < self.physical:
            words = f"{self.performance} performance cores of {self.physical} physical ones"
        return words + (f", affinity allows {self.usable} of {self.logical} CPUs" * (self.usable < self.logical))


@cache
def cores() -> Cores:
    """Those of this machine and process, found once. What the system does not tell counts as one core per CPU."""
    logical = os.cpu_count() or 1
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(logical))
    if sys.platform == "linux":
        return linux_cores(Path("/"), logical, usable)
    physical, performance = logical, logical
    if sys.platform == "darwin":
        physical = _sysctl("hw.physicalcpu") or logical
        performance = _sysctl("hw.perflevel0.physicalcpu") or physical
    elif sys.platform == "win32":
        classes = windows_cores(_processor_information())
        physical = len(classes) or logical
        performance = classes.count(max(classes)) if classes else logical
    return Cores(logical, len(usable), physical, performance)


def linux_cores(root: Path, logical: int, usable: Collection[int]) -> Cores:
    """From the files below `root`; usable: numbers of the CPUs that affinity allows."""
    fast = _performance_cpus(root, usable)
    physical = {_siblings(root, cpu) for cpu in usable}
    performance = {_siblings(root, cpu) for cpu in fast}
    return Cores(logical, len(usable), len(physical), len(performance), cpu_quota(root))


def _siblings(root: Path, cpu: int) -> str:
    """The list of logical processors that share this one's core, which names the core."""
    return _text(root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)


def _performance_cpus(root: Path, usable: Collection[int]) -> set[int]:
    """Intel names its performance CPUs; Arm gives each CPU a capacity. Without both, or if none is usable: all."""
    named = set(usable) & cpu_list(_text(root / "sys/devices/cpu_core/cpus"))
    if named:
        return named
    capacities = {cpu: _text(root / f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity") for cpu in usable}
    if not all(text.isdecimal() for text in capacities.values()):
        return set(usable)
    most = max(int(text) for text in capacities.values())
    return {cpu for cpu, text in capacities.items() if int(text) >= _CAPABLE * most}


def cpu_list(text: str) -> set[int]:
    """The kernel's notation: "0-3,8" -> {0, 1, 2, 3, 8}; nothing for what is no such list."""
    cpus: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            return set()
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _sysctl(name: str) -> int | None:
    """An integer of macOS's sysctl, or None if this machine has none of this name."""
    import ctypes

    value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
    system = ctypes.CDLL(None)
    if system.sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0)):
        return None
    return value.value


def _processor_information() -> bytes:
    """Windows' records of the relationship RelationProcessorCore, one per physical core."""
    import ctypes

    relation_core, size = 0, ctypes.c_uint32(0)
    kernel32 = ctypes.windll.kernel32  # type: ignore[attr-defined, unused-ignore]
    kernel32.GetLogicalProcessorInformationEx(relation_core, None, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    if not size.value or not kernel32.GetLogicalProcessorInformationEx(relation_core, buffer, ctypes.byref(size)):
        return b""
    return buffer.raw[: size.value]


def windows_cores(records: bytes) -> list[int]:
    """The efficiency class of every physical core: the higher, the faster."""
    classes = []
    while len(records) >= 10:
        _relation, size, _flags, efficiency_class = struct.unpack_from("<IIBB", records)
        if not 10 <= size <= len(records):
            break
        classes.append(efficiency_class)
        records = records[size:]
    return classes
