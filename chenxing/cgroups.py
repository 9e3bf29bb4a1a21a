"""The CPU time that Linux grants this process: the tightest quota of its cgroup and of all groups around it.

Version 2 has one tree, and in it files cpu.max ("200000 100000", "max 100000"); version 1 has a tree for the cpu
controller, with two files. Both may be there. In a container the tree that is mounted may begin at the process's own
group: then the path of /proc/self/cgroup is not found in it, and the root of the mount is that group.

Source  Linux Documentation/admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst; cgroups(7)
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_V2 = ("sys/fs/cgroup", "sys/fs/cgroup/unified")
_V1 = ("sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct", "sys/fs/cgroup/cpuacct,cpu")


def cpu_quota(root: Path) -> float | None:
    """In CPUs, such as 1.5; None without a limit. root: the folder that holds proc and sys."""
    quotas = []
    for controllers, group in _memberships(root):
        if not controllers:
            quotas += [_v2(folder) for mount in _V2 for folder in _nested(root / mount, group)]
        elif "cpu" in controllers:
            quotas += [_v1(folder) for mount in _V1 for folder in _nested(root / mount, group)]
    return min((q for q in quotas if q is not None), default=None)


def _memberships(root: Path) -> Iterator[tuple[list[str], PurePosixPath]]:
    """Of /proc/self/cgroup: the controllers of a tree, none for version 2, and the process's group in it."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, group = (*line.split(":", 2), "", "")[:3]
        yield controllers.split(",") if controllers else [], PurePosixPath("/") / group


def _nested(mount: Path, group: PurePosixPath) -> Iterator[Path]:
    """The folder of the group and of all groups around it."""
    for part in (group, *group.parents):
        yield mount.joinpath(*part.parts[1:])


def _v2(folder: Path) -> float | None:
    quota, period = (*_words(folder / "cpu.max"), "", "")[:2]
    return _cpus(quota, period)


def _v1(folder: Path) -> float | None:
    quota, period = (" ".join(_words(folder / f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
    return _cpus(quota, period)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def _cpus(quota: str, period: str) -> float | None:
    """None for "max", -1 and what is missing."""
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return None
    return int(quota) / int(period)
